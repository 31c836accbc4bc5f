// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pool with AVX-512: 16 channels at a time.
#define DDPBENCH_POOL_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))

// False warning in GCC's own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <immintrin.h>

#include "kernels/ops/cpu/bfloat16_avx512.h"
#include "kernels/ops/cpu/max_pool_loops.h"

namespace ddpbench::ops::cpu {
namespace {

#define DDPBENCH_POOL_INLINE DDPBENCH_POOL_TARGET static inline

struct Avx512Lanes {
  static constexpr std::int64_t kWidth = 16;
  using Index = std::uint8_t;
  using Values = __m512;
  using Codes = __m512i;  // 32-bit lanes, as the comparisons have

  DDPBENCH_POOL_INLINE Values values(float v) { return _mm512_set1_ps(v); }
  DDPBENCH_POOL_INLINE Values plus(Values a, Values b) { return _mm512_add_ps(a, b); }
  DDPBENCH_POOL_INLINE Codes codes(Index code) { return _mm512_set1_epi32(code); }
  DDPBENCH_POOL_INLINE Codes load_codes(const Index* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  DDPBENCH_POOL_INLINE void store_codes(Index* p, Codes codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(codes));
  }
  DDPBENCH_POOL_INLINE void challenge(Values& best, Codes& codes, Values candidate, Index code) {
    const __mmask16 wins =
        static_cast<__mmask16>(_mm512_cmp_ps_mask(candidate, best, _CMP_GT_OQ) |
                               _mm512_cmp_ps_mask(candidate, candidate, _CMP_UNORD_Q));
    best = _mm512_mask_mov_ps(best, wins, candidate);
    codes = _mm512_mask_set1_epi32(codes, wins, code);
  }
  DDPBENCH_POOL_INLINE void rectify(Values& values, Codes& codes) {
    const __m512 zero = _mm512_setzero_ps();
    const __mmask16 cut = _mm512_cmp_ps_mask(values, zero, _CMP_LE_OQ);
    values = _mm512_max_ps(zero, values);  // NaN and -0 stay: the second operand wins
    codes = _mm512_mask_set1_epi32(codes, cut, kNoGradient<Index>);
  }
  DDPBENCH_POOL_INLINE Values pick(Values grad, Codes codes, Index code) {
    return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(code)), grad);
  }
};

struct Avx512Floats : Avx512Lanes {
  using Element = float;
  DDPBENCH_POOL_INLINE Values load(const float* p) { return _mm512_loadu_ps(p); }
  DDPBENCH_POOL_INLINE void store(float* p, Values v) { _mm512_storeu_ps(p, v); }
};

struct Avx512Halves : Avx512Lanes {
  using Element = BFloat16;
  DDPBENCH_POOL_INLINE Values load(const BFloat16* p) { return load_bfloat16(p); }
  DDPBENCH_POOL_INLINE void store(BFloat16* p, Values v) { store_bfloat16(p, v); }
};

}  // namespace

PoolKernel pool_kernel_avx512(bool halving, DataType type) {
  if (type == DataType::bf16) return make_pool_kernel<Avx512Halves>(halving);
  return make_pool_kernel<Avx512Floats>(halving);
}

}  // namespace ddpbench::ops::cpu
