// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers, units of memory, and the mark of functions that GPU kernels call.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

// Marks functions that GPU kernels call as well.
#ifdef __CUDACC__
#define DDPBENCH_HOST_DEVICE __host__ __device__
#else
#define DDPBENCH_HOST_DEVICE
#endif

namespace ddpbench {

inline constexpr std::size_t kKiB = 1024;
inline constexpr std::size_t kMiB = 1024 * kKiB;

// The number of pieces of `by` that hold `value`. REQUIRES: value >= 0 and by > 0. The result is
// too small where value + by overflows an unsigned T.
template <std::integral T>
DDPBENCH_HOST_DEVICE constexpr T ceil_div(T value, std::type_identity_t<T> by) {
  return static_cast<T>((value + by - 1) / by);
}

// The least multiple of `multiple` that is not below `value`. REQUIRES: as ceil_div.
template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> multiple) {
  return static_cast<T>(ceil_div(value, multiple) * multiple);
}

}  // namespace ddpbench
