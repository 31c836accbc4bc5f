// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth-bound loops: relu_forward moves 2 elements of memory for each of the result,
// relu_backward and add 3.
#include "kernels/ops/cpu/elementwise.h"

#include <algorithm>

#include "kernels/ops/cpu/parallel.h"

namespace ddpbench::ops::cpu {

template <typename T>
void relu_forward(Team team, const T* x, T* y, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T value = x[i];
        y[i] = value < 0 ? T{} : value;
      }
    });
  });
}

template <typename T>
void relu_backward(Team team, const T* y, const T* dy, T* dx, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i) {
        const T grad = dy[i];  // always read: a conditional read would not vectorise
        dx[i] = y[i] <= 0 ? T{} : grad;
      }
    });
  });
}

template <typename T>
void add(Team team, const T* a, const T* b, T* sum, std::int64_t count) {
  parallel_elements(team.threads, count, [=](std::int64_t begin, std::int64_t end) {
    run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
      for (std::int64_t i = begin; i < end; ++i)
        sum[i] = from_float<T>(static_cast<float>(a[i]) + static_cast<float>(b[i]));
    });
  });
}

// The columns are split over the team: one thread makes each sum, in one order.
template <typename T>
void column_sums(Team team, const T* matrix, std::int64_t rows, std::int64_t columns, float* sums,
                 bool accumulate) {
  const int threads = rows * columns < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, columns, 16, [=](int, std::int64_t begin, std::int64_t end) {
    if (!accumulate) std::fill(sums + begin, sums + std::max(begin, end), 0.0F);
    for (std::int64_t i = 0; i < rows; ++i)
      run_simd(team.simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
        for (std::int64_t j = begin; j < end; ++j)
          sums[j] += static_cast<float>(matrix[i * columns + j]);
      });
  });
}

#define DDPBENCH_ELEMENTWISE(T)                                            \
  template void relu_forward(Team, const T*, T*, std::int64_t);            \
  template void relu_backward(Team, const T*, const T*, T*, std::int64_t); \
  template void add(Team, const T*, const T*, T*, std::int64_t);           \
  template void column_sums(Team, const T*, std::int64_t, std::int64_t, float*, bool);
DDPBENCH_ELEMENTWISE(float)
DDPBENCH_ELEMENTWISE(BFloat16)

}  // namespace ddpbench::ops::cpu
