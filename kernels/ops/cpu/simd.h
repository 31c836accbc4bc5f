// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The vector instructions and the cache of this processor, what they can do at most, and loops
// compiled once for each set of instructions.
//
// Nothing is built with -march. A function that needs more than the base instruction set says so in
// its own target attribute, and is called only where simd_level() allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ddpbench::ops::cpu {

enum class SimdLevel : std::uint8_t { portable, avx2, avx512 };
std::string_view to_string(SimdLevel level);  // "portable", "avx2", "avx512"

// The best level of the processor this runs on.
SimdLevel simd_level();

// The size of the L2 cache, a core; 0 when unknown.
std::size_t l2_bytes_per_core();

// ---- the most floating-point operations that a core can do a second ----
//
// Multiply-adds in registers alone, in independent chains that keep all units of a core busy.

// Computes x = x * factor + addend, `rounds` times, for numbers that begin at 1. Returns their sum.
// REQUIRES: the processor has `level`.
float run_multiply_adds(SimdLevel level, std::int64_t rounds, float factor, float addend);
// The floating-point operations of a round: two for each of the numbers.
std::int64_t multiply_add_flops(SimdLevel level);

// The same with avx512_bf16, whose numbers are fp32 and whose factors are bf16: x = x + 2 * 1 * 1.
// REQUIRES: the processor has it (why_no_cpu_bf16 in kernels/ops/backend.h).
float run_bf16_multiply_adds(std::int64_t rounds);
std::int64_t bf16_multiply_add_flops();

// ---- loops compiled once for each set of instructions ----

namespace detail {
template <typename Body>
__attribute__((target("avx512f,avx512bw,avx512vl"))) void run_avx512(const Body& body) {
  body();
}
template <typename Body>
__attribute__((target("avx2,fma"))) void run_avx2(const Body& body) {
  body();
}
}  // namespace detail

// Runs `body`, a lambda marked DDPBENCH_SIMD_BODY, compiled for `level`. The compiler inlines it
// into a function with the level's target and vectorises its loop there.
#define DDPBENCH_SIMD_BODY __attribute__((always_inline))
template <typename Body>
void run_simd(SimdLevel level, const Body& body) {
  switch (level) {
    case SimdLevel::avx512:
      return detail::run_avx512(body);
    case SimdLevel::avx2:
      return detail::run_avx2(body);
    case SimdLevel::portable:
      return body();
  }
}

}  // namespace ddpbench::ops::cpu
