// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pool with AVX2: 8 channels at a time.
#define DDPBENCH_POOL_TARGET __attribute__((target("avx2")))

#include <immintrin.h>

#include "kernels/ops/cpu/max_pool_loops.h"

namespace ddpbench::ops::cpu {
namespace {

#define DDPBENCH_POOL_INLINE DDPBENCH_POOL_TARGET static inline

struct Avx2Vector {
  static constexpr std::int64_t kWidth = 8;
  using Element = float;
  using Index = std::uint8_t;
  using Values = __m256;
  using Codes = __m256i;  // 32-bit lanes, as the comparisons have

  DDPBENCH_POOL_INLINE Values load(const float* p) { return _mm256_loadu_ps(p); }
  DDPBENCH_POOL_INLINE void store(float* p, Values v) { _mm256_storeu_ps(p, v); }
  DDPBENCH_POOL_INLINE Values values(float v) { return _mm256_set1_ps(v); }
  DDPBENCH_POOL_INLINE Values plus(Values a, Values b) { return _mm256_add_ps(a, b); }
  DDPBENCH_POOL_INLINE Codes codes(Index code) { return _mm256_set1_epi32(code); }
  DDPBENCH_POOL_INLINE Codes load_codes(const Index* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  DDPBENCH_POOL_INLINE void store_codes(Index* p, Codes codes) {
    // Saturating packs keep 0..255: 8 x 32 -> 8 x 16 -> 8 x 8 bits.
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
  }
  DDPBENCH_POOL_INLINE void challenge(Values& best, Codes& codes, Values candidate, Index code) {
    const __m256 wins = _mm256_or_ps(_mm256_cmp_ps(candidate, best, _CMP_GT_OQ),
                                     _mm256_cmp_ps(candidate, candidate, _CMP_UNORD_Q));
    best = _mm256_blendv_ps(best, candidate, wins);
    codes = _mm256_blendv_epi8(codes, _mm256_set1_epi32(code), _mm256_castps_si256(wins));
  }
  DDPBENCH_POOL_INLINE void rectify(Values& values, Codes& codes) {
    const __m256 zero = _mm256_setzero_ps();
    const __m256 cut = _mm256_cmp_ps(values, zero, _CMP_LE_OQ);
    values = _mm256_max_ps(zero, values);  // NaN and -0 stay: the second operand wins
    codes =
        _mm256_blendv_epi8(codes, _mm256_set1_epi32(kNoGradient<Index>), _mm256_castps_si256(cut));
  }
  DDPBENCH_POOL_INLINE Values pick(Values grad, Codes codes, Index code) {
    const __m256i same = _mm256_cmpeq_epi32(codes, _mm256_set1_epi32(code));
    return _mm256_and_ps(grad, _mm256_castsi256_ps(same));
  }
};

}  // namespace

PoolKernel pool_kernel_avx2(bool halving) { return make_pool_kernel<Avx2Vector>(halving); }

}  // namespace ddpbench::ops::cpu
