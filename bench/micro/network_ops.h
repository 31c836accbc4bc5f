// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of SimpleCNN (configs/models/simple_cnn.json) on any backend, for measuring them.
#pragma once

#include <memory>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// The layout [batch, channels, extent, extent].
TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent,
                   DataType type = DataType::fp32);
// A 3x3 convolution with a bias, which keeps the extent.
std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input);
// The same fused with halve(); null where the backend does not fuse them.
std::unique_ptr<Op> conv3x3_halved(OpBackend& backend, const TensorLayout& input,
                                   std::int64_t out_channels, bool needs_grad_input);
// Max-pool 2x2 with ReLU.
std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input);
// The same with a plain output for any input layout; null where the backend has none.
std::unique_ptr<Op> halve_to_plain(OpBackend& backend, const TensorLayout& input);

}  // namespace ddpbench::ops
