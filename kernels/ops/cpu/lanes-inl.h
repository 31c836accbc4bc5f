// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiles the source that includes it once for each instruction set: reads DDPBENCH_SOURCE, which
// must be defined, with DDPBENCH_LANES, the floats of a vector, within the namespace
// DDPBENCH_LEVEL, which then has Values, a vector, and what loads and stores it. One lane is no
// vector and runs on any processor. Arithmetic is that of GCC's and Clang's vector types.
//
// So it has no #pragma once, and all other headers come before it. Highway does the same, but its
// conversions of narrow integers took 3 to 20 % more of the max-pool's time forward (AVX-512).
#ifndef DDPBENCH_LANES

#include <immintrin.h>

#include <cstdint>

#include "kernels/runtime/bfloat16.h"

#ifdef __GNUC__  // False warning in GCC's own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#define DDPBENCH_INLINE __attribute__((always_inline)) inline

#define DDPBENCH_LEVEL avx512
#define DDPBENCH_LANES 16
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl")
#include "kernels/ops/cpu/lanes-inl.h"
#include DDPBENCH_SOURCE
#pragma GCC pop_options
#undef DDPBENCH_LEVEL
#undef DDPBENCH_LANES

#define DDPBENCH_LEVEL avx2
#define DDPBENCH_LANES 8
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#include "kernels/ops/cpu/lanes-inl.h"
#include DDPBENCH_SOURCE
#pragma GCC pop_options
#undef DDPBENCH_LEVEL
#undef DDPBENCH_LANES

#define DDPBENCH_LEVEL portable
#define DDPBENCH_LANES 1
#include "kernels/ops/cpu/lanes-inl.h"
#include DDPBENCH_SOURCE
#undef DDPBENCH_LEVEL
#undef DDPBENCH_LANES

#else

namespace ddpbench::ops::cpu::DDPBENCH_LEVEL {

constexpr std::int64_t kWidth = DDPBENCH_LANES;

#if DDPBENCH_LANES == 16

using Values = __m512;
DDPBENCH_INLINE Values broadcast(float value) { return _mm512_set1_ps(value); }
DDPBENCH_INLINE Values load(const float* from) { return _mm512_loadu_ps(from); }
DDPBENCH_INLINE void store(float* to, Values values) { _mm512_storeu_ps(to, values); }
// The instructions of avx512_bf16 are not needed for bf16, nor would they be faster where memory is
// the limit.
DDPBENCH_INLINE Values load(const BFloat16* from) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
// As BFloat16::round.
DDPBENCH_INLINE void store(BFloat16* to, Values values) {
  const __m512i wide = _mm512_castps_si512(values);
  const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(wide, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(wide, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(sum, nan, wide, _mm512_set1_epi32(0x40 << 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
// NaN and -0 stay: the second operand wins.
DDPBENCH_INLINE Values rectified(Values values) {
  return _mm512_max_ps(_mm512_setzero_ps(), values);
}

#elif DDPBENCH_LANES == 8

using Values = __m256;
DDPBENCH_INLINE Values broadcast(float value) { return _mm256_set1_ps(value); }
DDPBENCH_INLINE Values load(const float* from) { return _mm256_loadu_ps(from); }
DDPBENCH_INLINE void store(float* to, Values values) { _mm256_storeu_ps(to, values); }
DDPBENCH_INLINE Values rectified(Values values) {
  return _mm256_max_ps(_mm256_setzero_ps(), values);
}

#else

using Values = float;
DDPBENCH_INLINE Values broadcast(float value) { return value; }
template <typename Element>
DDPBENCH_INLINE Values load(const Element* from) {
  return *from;
}
template <typename Element>
DDPBENCH_INLINE void store(Element* to, Values value) {
  *to = from_float<Element>(value);
}
DDPBENCH_INLINE Values rectified(Values value) { return value < 0 ? 0 : value; }

#endif

}  // namespace ddpbench::ops::cpu::DDPBENCH_LEVEL

#endif
