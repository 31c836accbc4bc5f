// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// 16 elements of bf16 to and from a register of AVX-512. The instructions of avx512_bf16 are not
// needed for it, nor would they be faster where memory is the limit.
#pragma once

#include <immintrin.h>

#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::cpu {

#define DDPBENCH_AVX512_INLINE __attribute__((target("avx512f,avx512bw,avx512vl"))) static inline

DDPBENCH_AVX512_INLINE __m512 load_bfloat16(const BFloat16* p) {
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// As BFloat16::round.
DDPBENCH_AVX512_INLINE void store_bfloat16(BFloat16* p, __m512 v) {
  const __m512i wide = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(wide, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(wide, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i rounded = _mm512_mask_or_epi32(sum, nan, wide, _mm512_set1_epi32(0x40 << 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

}  // namespace ddpbench::ops::cpu
