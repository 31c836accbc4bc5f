// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The strides of a map, for the kernels of pools.
#pragma once

#include "kernels/ops/cuda/kernels/pool_geometry.h"
#include "kernels/ops/cuda/library/layout.h"

namespace ddpbench::ops::cuda {

// REQUIRES: a plain or channels-last layout of [batch, channels, height, width].
inline ImageStrides image_strides(const TensorLayout& layout) {
  const auto extent = [&](std::size_t i) { return static_cast<std::uint32_t>(layout.shape[i]); };
  const std::uint32_t channels = extent(1), height = extent(2), width = extent(3);
  if (is_nhwc(layout)) return {height * width * channels, 1, width * channels, channels};
  return {channels * height * width, height * width, width, 1};
}

}  // namespace ddpbench::ops::cuda
