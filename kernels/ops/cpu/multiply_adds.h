// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Multiply-adds in registers alone, in independent chains that keep all units of a core busy: the
// most floating-point operations that a core can do a second.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/simd.h"

namespace ddpbench::ops::cpu {

// Computes x = x * factor + addend, `rounds` times, for numbers that begin at 1. Returns their sum.
// REQUIRES: the processor has `level`.
float run_multiply_adds(SimdLevel level, std::int64_t rounds, float factor, float addend);
// The floating-point operations of a round: two for each of the numbers.
std::int64_t multiply_add_flops(SimdLevel level);

// The same with avx512_bf16, whose numbers are fp32 and whose factors are bf16: x = x + 2 * 1 * 1.
// REQUIRES: the processor has it (why_no_cpu_bf16 in kernels/ops/backend.h).
float run_bf16_multiply_adds(std::int64_t rounds);
std::int64_t bf16_multiply_add_flops();

}  // namespace ddpbench::ops::cpu
