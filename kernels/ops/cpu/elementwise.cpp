// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth-bound loops: relu_forward 8, relu_backward and add 12 bytes an element.
#include "kernels/ops/cpu/elementwise.h"

#include <algorithm>

#include "kernels/ops/cpu/parallel.h"

namespace ddpbench::ops::cpu {

void relu_forward(Team team, const float* x, float* y, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) y[i] = x[i] < 0 ? 0 : x[i];
    });
  });
}

void relu_backward(Team team, const float* y, const float* dy, float* dx, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const float grad = dy[i];  // always read: a conditional read would not vectorise
        dx[i] = y[i] <= 0 ? 0 : grad;
      }
    });
  });
}

void add(Team team, const float* a, const float* b, float* sum, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
    });
  });
}

// The columns are split over the team: one thread makes each sum, in one order.
void column_sums(Team team, const float* matrix, std::int64_t rows, std::int64_t columns,
                 float* sums, bool accumulate) {
  const int threads = rows * columns < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, columns, 16, [=](int, std::int64_t begin, std::int64_t end) {
    if (!accumulate) std::fill(sums + begin, sums + std::max(begin, end), 0.0F);
    for (std::int64_t i = 0; i < rows; ++i)
      run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
        for (std::int64_t j = begin; j < end; ++j) sums[j] += matrix[i * columns + j];
      });
  });
}

}  // namespace ddpbench::ops::cpu
