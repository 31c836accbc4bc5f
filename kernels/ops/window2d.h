// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The window of a convolution or a pool, in elements of a map of rows (h) and columns (w).
#pragma once

#include <cstdint>

namespace ddpbench::ops {

template <typename Integer>
struct BasicWindow2d {
  Integer kernel_h = 0, kernel_w = 0;
  Integer stride_h = 1, stride_w = 1;
  Integer pad_h = 0, pad_w = 0;  // on both sides of the map

  // Whether windows of `extent` x `extent` lie side by side from the map's corner on.
  constexpr bool is_tiling(Integer extent) const {
    return kernel_h == extent && kernel_w == extent && stride_h == extent && stride_w == extent &&
           pad_h == 0 && pad_w == 0;
  }
  friend bool operator==(const BasicWindow2d&, const BasicWindow2d&) = default;
};

using Window2d = BasicWindow2d<std::int64_t>;
using KernelWindow2d = BasicWindow2d<std::uint32_t>;  // as GPU kernels count

constexpr Window2d square_window(std::int64_t kernel, std::int64_t stride = 1,
                                 std::int64_t pad = 0) {
  return {kernel, kernel, stride, stride, pad, pad};
}

}  // namespace ddpbench::ops
