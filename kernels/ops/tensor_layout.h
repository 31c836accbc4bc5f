// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shape, element type and physical layout of a tensor, and the windows that slide over maps. Value
// types, thread-safe to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops {

using Shape = std::vector<std::int64_t>;  // outermost first; images are [batch, channels, h, w]

std::int64_t element_count(const Shape& shape);  // at most the largest number there is
std::string to_string(const Shape& shape);       // "[64, 1, 28, 28]"

// Plain (row-major) or a backend's own layout. Two layouts are equal when shape, type and tag are.
struct TensorLayout {
  Shape shape;
  DataType type = DataType::fp32;
  std::size_t bytes = 0;               // padding included
  std::string tag = "plain";           // "plain", or the backend's name of it ("aBcd16b"); goes
                                       // into the plan's hash
  std::shared_ptr<const void> native;  // the backend's own descriptor; null when plain

  static TensorLayout plain(Shape shape, DataType type = DataType::fp32);
  bool is_plain() const { return tag == "plain"; }
  friend bool operator==(const TensorLayout& a, const TensorLayout& b) {
    return a.shape == b.shape && a.type == b.type && a.tag == b.tag;
  }
};

// The same order of elements in another type. REQUIRES: no native descriptor.
TensorLayout with_type(TensorLayout layout, DataType type);
// The same order of elements in each sample, for a batch [samples, ...]. REQUIRES: no native
// descriptor.
TensorLayout for_samples(TensorLayout layout, std::int64_t samples);

// Images [batch, channels, h, w] in which groups of `block` channels lie together in each pixel: 1
// is plain; blocks of 8 and 16, the last one filled up with zeros, are "aBcd8b" and "aBcd16b" in
// oneDNN's notation; all channels together are channels last, "acdb", or plain with one channel or
// one pixel.
TensorLayout image_layout(const Shape& shape, std::int64_t block, DataType type = DataType::fp32);
// The block of such a layout; 0 for any other.
std::int64_t channel_block(const TensorLayout& layout);

// The window of a convolution or a pool, in elements of a map of rows (h) and columns (w).
template <typename Integer>
struct BasicWindow2d {
  Integer kernel_h = 0, kernel_w = 0;
  Integer stride_h = 1, stride_w = 1;
  Integer pad_h = 0, pad_w = 0;    // above and left of the map, and below and right of it ...
  Integer more_h = 0, more_w = 0;  // ... with so many more, or fewer
  bool ceil_mode = false;          // a last window may reach beyond the padding

  // Whether windows of `extent` x `extent` lie side by side from the map's corner on.
  constexpr bool is_tiling(Integer extent) const {
    return kernel_h == extent && kernel_w == extent && stride_h == extent && stride_w == extent &&
           pad_h == 0 && pad_w == 0 && is_even() && !ceil_mode;
  }
  // Whether both sides have the same padding.
  constexpr bool is_even() const { return more_h == 0 && more_w == 0; }
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

// The positions of a window over `extent`: floor((extent + 2 pad + more - kernel) / stride) + 1, or
// 0. With `ceil_mode` rounded up, but a last window begins in the map or before it (PyTorch's
// rule).
constexpr std::int64_t window_positions(std::int64_t extent, std::int64_t kernel,
                                        std::int64_t stride, std::int64_t pad, std::int64_t more,
                                        bool ceil_mode) {
  const std::int64_t room = extent + 2 * pad + more - kernel + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return 0;
  const std::int64_t last = room / stride;
  return ceil_mode && last * stride >= extent + pad ? last : last + 1;
}

constexpr Window2d square_window(std::int64_t kernel, std::int64_t stride = 1,
                                 std::int64_t pad = 0) {
  return {kernel, kernel, stride, stride, pad, pad};
}

}  // namespace ddpbench::ops
