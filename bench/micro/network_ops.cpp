// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/network_ops.h"

namespace ddpbench::ops {

TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent, DataType type) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input) {
  return backend.conv2d({.input = input,
                         .out_channels = out_channels,
                         .kernel_h = 3,
                         .kernel_w = 3,
                         .pad_h = 1,
                         .pad_w = 1,
                         .needs_grad_input = needs_grad_input});
}

std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input, bool plain_output,
                          bool bias) {
  return backend.max_pool2d({.input = input,
                             .kernel_h = 2,
                             .kernel_w = 2,
                             .stride_h = 2,
                             .stride_w = 2,
                             .fuse_relu = true,
                             .plain_output = plain_output,
                             .bias = bias});
}

}  // namespace ddpbench::ops
