// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd with AVX-512: 16 channels at a time.
#define DDPBENCH_WINOGRAD_TARGET __attribute__((target("avx512f,avx512bw,avx512vl")))

// False warning in GCC's own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <immintrin.h>

#include "kernels/ops/cpu/bfloat16_avx512.h"
#include "kernels/ops/cpu/winograd_products.h"

namespace ddpbench::ops::cpu {
namespace {

#define DDPBENCH_WINOGRAD_VECTOR DDPBENCH_WINOGRAD_TARGET static inline

struct Avx512Lanes {
  static constexpr std::int64_t kWidth = 16;
  // Of 32 registers, two hold the weights and one the number that is broadcast.
  static constexpr std::size_t kRows = 14;
  static constexpr std::size_t kGradientRows = 8;
  using Values = __m512;

  DDPBENCH_WINOGRAD_VECTOR Values zero() { return _mm512_setzero_ps(); }
  DDPBENCH_WINOGRAD_VECTOR Values broadcast(float v) { return _mm512_set1_ps(v); }
  DDPBENCH_WINOGRAD_VECTOR Values load(const float* p) { return _mm512_loadu_ps(p); }
  DDPBENCH_WINOGRAD_VECTOR void store(float* p, Values v) { _mm512_storeu_ps(p, v); }
  DDPBENCH_WINOGRAD_VECTOR Values load(const BFloat16* p) { return load_bfloat16(p); }
  DDPBENCH_WINOGRAD_VECTOR void store(BFloat16* p, Values v) { store_bfloat16(p, v); }
  DDPBENCH_WINOGRAD_VECTOR Values add(Values a, Values b) { return _mm512_add_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values sub(Values a, Values b) { return _mm512_sub_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values mul(Values a, Values b) { return _mm512_mul_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values fma(Values a, Values b, Values c) {
    return _mm512_fmadd_ps(a, b, c);
  }
  DDPBENCH_WINOGRAD_VECTOR Values fnma(Values a, Values b, Values c) {
    return _mm512_fnmadd_ps(a, b, c);
  }
  // NaN stays: the second operand wins.
  DDPBENCH_WINOGRAD_VECTOR Values rectify(Values v) { return _mm512_max_ps(zero(), v); }
};

}  // namespace

WinogradKernel winograd_kernel_avx512(DataType maps) {
  if (maps == DataType::bf16) return make_winograd_kernel<Avx512Lanes, BFloat16>();
  return make_winograd_kernel<Avx512Lanes, float>();
}

}  // namespace ddpbench::ops::cpu
