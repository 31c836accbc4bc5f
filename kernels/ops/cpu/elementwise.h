// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops over memory that several operations need, compiled for each instruction set and split over
// the device's team. They go in memory order, so they fit every layout, padding included.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/simd.h"

namespace ddpbench::ops::cpu {

// How a loop runs.
struct Team {
  SimdLevel simd = SimdLevel::portable;
  int threads = 1;
};

// The pointers of one call may be equal, but not overlap otherwise.
void relu_forward(Team team, const float* x, float* y, std::int64_t count);
// dx = y <= 0 ? 0 : dy (PyTorch's rule: NaN lets the gradient through).
void relu_backward(Team team, const float* y, const float* dy, float* dx, std::int64_t count);
void add(Team team, const float* a, const float* b, float* sum, std::int64_t count);
// sums[j] (+)= sum over rows i of matrix[i, j], rows in order.
void column_sums(Team team, const float* matrix, std::int64_t rows, std::int64_t columns,
                 float* sums, bool accumulate);

}  // namespace ddpbench::ops::cpu
