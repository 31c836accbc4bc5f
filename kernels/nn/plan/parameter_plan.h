// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ParameterPlan: where each parameter lies in the flat buffers of weights, gradients and optimizer
// state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/op.h"

namespace ddpbench::nn {

// One trainable tensor.
struct ParameterInfo {
  std::string name;              // "conv1.weight"
  ops::Shape shape;              // PyTorch's
  ops::TensorLayout layout;      // as stored here
  std::size_t offset_bytes = 0;  // in the flat buffers; 64-byte aligned
  std::size_t bytes = 0;         // layout.bytes
  std::int64_t fan_in = 0;
};

// Index order is the reverse of PyTorch's parameters(), the order in which backward produces
// gradients. Buckets and server shards are contiguous ranges of it.
struct ParameterPlan {
  std::vector<ParameterInfo> parameters;
  std::size_t flat_bytes = 0;  // of each flat buffer, alignment gaps included (they stay zero)
  // Hash over names, shapes, layout tags, offsets: equal on all ranks or they may not train
  // together.
  std::uint64_t hash = 0;
};

// The parameters of one layer, in PyTorch's order (weight before bias).
struct LayerParameters {
  std::string layer;
  std::vector<ops::ParameterSpec> specs;
};

// Parameters start at cache lines, so that vector code and bucket boundaries never share one.
inline constexpr std::size_t kParameterAlignment = 64;

// `layers` first layer first. Parameter i of the plan is the i-th last of PyTorch's parameters().
ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers);

}  // namespace ddpbench::nn
