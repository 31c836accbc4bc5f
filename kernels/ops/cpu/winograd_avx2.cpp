// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd with AVX2: 8 channels at a time.
#define DDPBENCH_WINOGRAD_TARGET __attribute__((target("avx2,fma")))

#include <immintrin.h>

#include "kernels/ops/cpu/winograd_products.h"

namespace ddpbench::ops::cpu {
namespace {

#define DDPBENCH_WINOGRAD_VECTOR DDPBENCH_WINOGRAD_TARGET static inline

struct Avx2Lanes {
  static constexpr std::int64_t kWidth = 8;
  // Of 16 registers, two hold the weights and one the number that is broadcast.
  static constexpr std::size_t kRows = 6;
  static constexpr std::size_t kGradientRows = 4;
  using Values = __m256;

  DDPBENCH_WINOGRAD_VECTOR Values zero() { return _mm256_setzero_ps(); }
  DDPBENCH_WINOGRAD_VECTOR Values broadcast(float v) { return _mm256_set1_ps(v); }
  DDPBENCH_WINOGRAD_VECTOR Values load(const float* p) { return _mm256_loadu_ps(p); }
  DDPBENCH_WINOGRAD_VECTOR void store(float* p, Values v) { _mm256_storeu_ps(p, v); }
  DDPBENCH_WINOGRAD_VECTOR Values add(Values a, Values b) { return _mm256_add_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values sub(Values a, Values b) { return _mm256_sub_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values mul(Values a, Values b) { return _mm256_mul_ps(a, b); }
  DDPBENCH_WINOGRAD_VECTOR Values fma(Values a, Values b, Values c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  DDPBENCH_WINOGRAD_VECTOR Values fnma(Values a, Values b, Values c) {
    return _mm256_fnmadd_ps(a, b, c);
  }
  // NaN stays: the second operand wins.
  DDPBENCH_WINOGRAD_VECTOR Values rectify(Values v) { return _mm256_max_ps(zero(), v); }
};

}  // namespace

WinogradKernel winograd_kernel_avx2() { return make_winograd_kernel<Avx2Lanes, float>(); }

}  // namespace ddpbench::ops::cpu
