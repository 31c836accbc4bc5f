// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops over memory that several operations need, compiled for each instruction set and split over
// the device's team. They go in memory order, so they fit every layout, padding included.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/cpu/parallel.h"
#include "kernels/runtime/bfloat16.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cpu {

// Calls body(T()) for the type of the elements, fp32 or bf16.
template <typename Body>
void with_element(DataType type, const Body& body) {
  ensure(type == DataType::fp32 || type == DataType::bf16, "no kernels for elements of {}",
         to_string(type));
  if (type == DataType::bf16) return body(BFloat16{});
  body(float{});
}

// The elements are fp32 or bf16; each result is rounded once. The pointers of one call may be
// equal, but not overlap otherwise.
void activate(Team team, Activation kind, DataType type, const void* x, void* y,
              std::int64_t count);
void activation_backward(Team team, Activation kind, DataType type, const void* y, const void* dy,
                         void* dx, std::int64_t count);
void add(Team team, DataType type, const void* a, const void* b, void* sum, std::int64_t count);
// sums[j] (+)= sum over rows i of matrix[i, j], rows in order.
void column_sums(Team team, DataType type, const void* matrix, std::int64_t rows,
                 std::int64_t columns, float* sums, bool accumulate);

}  // namespace ddpbench::ops::cpu
