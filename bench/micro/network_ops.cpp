// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/network_ops.h"

namespace ddpbench::ops {
namespace {

Conv2dDesc conv3x3_desc(const TensorLayout& input, std::int64_t out_channels,
                        bool needs_grad_input) {
  return {.input = input,
          .out_channels = out_channels,
          .kernel_h = 3,
          .kernel_w = 3,
          .pad_h = 1,
          .pad_w = 1,
          .needs_grad_input = needs_grad_input};
}

MaxPool2dDesc halving(const TensorLayout& input, bool plain_output) {
  return {.input = input,
          .kernel_h = 2,
          .kernel_w = 2,
          .stride_h = 2,
          .stride_w = 2,
          .fuse_relu = true,
          .plain_output = plain_output};
}

}  // namespace

TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent, DataType type) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input) {
  return backend.conv2d(conv3x3_desc(input, out_channels, needs_grad_input));
}

std::unique_ptr<Op> conv3x3_halved(OpBackend& backend, const TensorLayout& input,
                                   std::int64_t out_channels, bool needs_grad_input) {
  return backend.conv2d_max_pool2d(conv3x3_desc(input, out_channels, needs_grad_input),
                                   halving({}, false));
}

std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input, bool plain_output,
                          bool bias) {
  MaxPool2dDesc desc = halving(input, plain_output);
  desc.bias = bias;
  return backend.max_pool2d(desc);
}

}  // namespace ddpbench::ops
