// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/network_ops.h"

namespace ddpbench::ops {
namespace {

Conv2dDesc conv3x3_desc(const TensorLayout& input, std::int64_t out_channels,
                        bool needs_grad_input) {
  return {.input = input,
          .out_channels = out_channels,
          .window = square_window(3, 1, 1),
          .needs_grad_input = needs_grad_input};
}

MaxPool2dDesc halving(const TensorLayout& input) {
  return {.input = input, .window = square_window(2, 2), .fuse_relu = true};
}

}  // namespace

TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent, DataType type) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input) {
  return backend.make(conv3x3_desc(input, out_channels, needs_grad_input));
}

std::unique_ptr<Op> conv3x3_halved(OpBackend& backend, const TensorLayout& input,
                                   std::int64_t out_channels, bool needs_grad_input) {
  const OpDesc chain[] = {conv3x3_desc(input, out_channels, needs_grad_input), halving({})};
  return backend.fuse(chain).op;
}

std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input) {
  return backend.make(halving(input));
}

std::unique_ptr<Op> halve_to_plain(OpBackend& backend, const TensorLayout& input) {
  const TensorLayout plain = TensorLayout::plain({});
  const OpDesc chain[] = {halving(input), ReorderDesc{.from = plain, .to = plain}};
  return backend.fuse(chain).op;
}

}  // namespace ddpbench::ops
