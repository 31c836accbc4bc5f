// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cpu/multiply_adds.h"

// False warning in GCC's own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#include <immintrin.h>

#include <cstddef>

namespace ddpbench::ops::cpu {
namespace {

// A multiply-add has a result after 4 or 5 cycles, and a core begins at most two a cycle. With the
// factor and the addend these chains fit the 16 registers that all levels have.
constexpr std::size_t kChains = 12;

constexpr std::size_t lanes_of(SimdLevel level) {
  switch (level) {
    case SimdLevel::avx512:
      return 16;
    case SimdLevel::avx2:
      return 8;
    case SimdLevel::portable:
      return 4;
  }
  return 0;
}

float sum_of(const float* values, std::size_t count) {
  float sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

__attribute__((target("avx512f"))) void run_avx512(std::int64_t rounds, float factor, float addend,
                                                   float* results) {
  const __m512 a = _mm512_set1_ps(factor), b = _mm512_set1_ps(addend);
  __m512 x[kChains];
  for (__m512& chain : x) chain = _mm512_set1_ps(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = _mm512_fmadd_ps(x[c], a, b);
  }
  for (std::size_t c = 0; c < kChains; ++c) _mm512_storeu_ps(results + 16 * c, x[c]);
}

__attribute__((target("avx2,fma"))) void run_avx2(std::int64_t rounds, float factor, float addend,
                                                  float* results) {
  const __m256 a = _mm256_set1_ps(factor), b = _mm256_set1_ps(addend);
  __m256 x[kChains];
  for (__m256& chain : x) chain = _mm256_set1_ps(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = _mm256_fmadd_ps(x[c], a, b);
  }
  for (std::size_t c = 0; c < kChains; ++c) _mm256_storeu_ps(results + 8 * c, x[c]);
}

// Each lane adds the products of two pairs.
__attribute__((target("avx512f,avx512bf16"))) void run_bf16(std::int64_t rounds, float* results) {
  constexpr int kTwoOnes = 0x3f803f80;
  const __m512i ones = _mm512_set1_epi32(kTwoOnes);
  const auto a = (__m512bh)ones, b = (__m512bh)ones;
  __m512 x[kChains];
  for (__m512& chain : x) chain = _mm512_set1_ps(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = _mm512_dpbf16_ps(x[c], a, b);
  }
  for (std::size_t c = 0; c < kChains; ++c) _mm512_storeu_ps(results + 16 * c, x[c]);
}

void run_portable(std::int64_t rounds, float factor, float addend, float* results) {
  const __m128 a = _mm_set1_ps(factor), b = _mm_set1_ps(addend);
  __m128 x[kChains];
  for (__m128& chain : x) chain = _mm_set1_ps(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = _mm_add_ps(_mm_mul_ps(x[c], a), b);
  }
  for (std::size_t c = 0; c < kChains; ++c) _mm_storeu_ps(results + 4 * c, x[c]);
}

}  // namespace

float run_multiply_adds(SimdLevel level, std::int64_t rounds, float factor, float addend) {
  float results[kChains * 16];
  switch (level) {
    case SimdLevel::avx512:
      run_avx512(rounds, factor, addend, results);
      break;
    case SimdLevel::avx2:
      run_avx2(rounds, factor, addend, results);
      break;
    case SimdLevel::portable:
      run_portable(rounds, factor, addend, results);
      break;
  }
  return sum_of(results, kChains * lanes_of(level));
}

float run_bf16_multiply_adds(std::int64_t rounds) {
  float results[kChains * 16];
  run_bf16(rounds, results);
  return sum_of(results, kChains * 16);
}

std::int64_t bf16_multiply_add_flops() { return 2 * multiply_add_flops(SimdLevel::avx512); }

std::int64_t multiply_add_flops(SimdLevel level) {
  return static_cast<std::int64_t>(2 * kChains * lanes_of(level));
}

}  // namespace ddpbench::ops::cpu
