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

// The distance between neighbouring elements of a convolution's kernel, in elements of the map; 1:
// side by side. It is no part of the window, since pools have none.
struct Dilation2d {
  std::int64_t h = 1, w = 1;
  friend bool operator==(const Dilation2d&, const Dilation2d&) = default;
};

// The window whose kernel also counts the elements that a dilated kernel leaves out.
constexpr Window2d spanned_window(Window2d window, const Dilation2d& dilation) {
  window.kernel_h = dilation.h * (window.kernel_h - 1) + 1;
  window.kernel_w = dilation.w * (window.kernel_w - 1) + 1;
  return window;
}

constexpr Window2d square_window(std::int64_t kernel, std::int64_t stride = 1,
                                 std::int64_t pad = 0) {
  return {kernel, kernel, stride, stride, pad, pad};
}

}  // namespace ddpbench::ops
