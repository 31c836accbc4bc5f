// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cpu/simd.h"

#include <immintrin.h>
#include <unistd.h>

#include <cstddef>

namespace ddpbench::ops::cpu {
namespace {

// A multiply-add has a result after 4 or 5 cycles, and a core begins at most two a cycle. With the
// factor and the addend these chains fit the 16 registers that all levels have.
constexpr std::size_t kChains = 12;

constexpr std::size_t lanes_of(SimdLevel level) {
  return level == SimdLevel::avx512 ? 16 : level == SimdLevel::avx2 ? 8 : 4;
}

template <typename Vector>
__attribute__((always_inline)) inline float multiply_adds(std::int64_t rounds, float factor,
                                                          float addend) {
  const Vector a = Vector{} + factor, b = Vector{} + addend;
  Vector x[kChains];
  for (Vector& chain : x) chain = Vector{} + 1.0F;
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = x[c] * a + b;
  }
  float sum = 0;
  for (const Vector& chain : x)
    for (std::size_t i = 0; i < sizeof chain / sizeof(float); ++i) sum += chain[i];
  return sum;
}

}  // namespace

std::string_view to_string(SimdLevel level) {
  constexpr std::string_view kNames[] = {"portable", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(level)];
}

SimdLevel simd_level() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return SimdLevel::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return SimdLevel::avx2;
  return SimdLevel::portable;
}

// From cpuid, through glibc. (hwloc would read much else and take 20 ms.)
std::size_t l2_bytes_per_core() {
  const long bytes = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

float run_multiply_adds(SimdLevel level, std::int64_t rounds, float factor, float addend) {
  float sum = 0;
  run_simd(level, [&]() DDPBENCH_SIMD_BODY {
    if (level == SimdLevel::avx512) sum = multiply_adds<__m512>(rounds, factor, addend);
    if (level == SimdLevel::avx2) sum = multiply_adds<__m256>(rounds, factor, addend);
    if (level == SimdLevel::portable) sum = multiply_adds<__m128>(rounds, factor, addend);
  });
  return sum;
}

std::int64_t multiply_add_flops(SimdLevel level) {
  return static_cast<std::int64_t>(2 * kChains * lanes_of(level));
}

// Each lane adds the products of two pairs.
__attribute__((target("avx512f,avx512bf16"))) float run_bf16_multiply_adds(std::int64_t rounds) {
  constexpr int kTwoOnes = 0x3f803f80;
  const auto ones = (__m512bh)_mm512_set1_epi32(kTwoOnes);
  __m512 x[kChains];
  for (__m512& chain : x) chain = _mm512_set1_ps(1);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) x[c] = _mm512_dpbf16_ps(x[c], ones, ones);
  }
  float sum = 0;
  for (const __m512& chain : x)
    for (std::size_t i = 0; i < 16; ++i) sum += chain[i];
  return sum;
}

std::int64_t bf16_multiply_add_flops() { return 2 * multiply_add_flops(SimdLevel::avx512); }

}  // namespace ddpbench::ops::cpu
