// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ParameterPlan: the place of each parameter in the flat buffers of weights, gradients and
// optimizer state, and of each tensor of the operations' state in a flat buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/ops/op.h"

namespace ddpbench::nn {

// One trainable tensor.
struct ParameterInfo {
  std::string name;              // "conv1.weight"
  ops::Shape shape;              // as in PyTorch
  ops::TensorLayout layout;      // as stored on the device
  std::size_t offset_bytes = 0;  // in the flat buffers; 64-byte aligned
  std::size_t bytes = 0;         // layout.bytes
  std::int64_t fan_in = 0;
  std::optional<float> start = {};  // as in ops::ParameterSpec
};

// One tensor that training changes and no gradient does (ops::StateSpec), plain.
struct StateInfo {
  std::string name;  // "bn1.running_mean"
  ops::Shape shape;
  DataType type = DataType::fp32;
  double start = 0;
  std::size_t offset_bytes = 0;  // in the flat state; 64-byte aligned
  std::size_t bytes = 0;
};

// Index order is the reverse of PyTorch's parameters(). Backward produces gradients in this order.
// Buckets and server shards are contiguous ranges of it.
struct ParameterPlan {
  std::vector<ParameterInfo> parameters;
  std::size_t flat_bytes = 0;    // of each flat buffer, alignment gaps included (they stay zero)
  std::vector<StateInfo> state;  // the first layer's first
  std::size_t state_bytes = 0;   // of the flat state, alignment gaps included
  // A hash of names, shapes, types, layout tags and offsets. Ranks may train together only if it is
  // equal.
  std::uint64_t hash = 0;
};

// The parameters of one layer, in PyTorch's order (weight before bias).
struct LayerParameters {
  std::string layer;
  std::vector<ops::ParameterSpec> specs;
  std::vector<ops::StateSpec> state = {};
};

// Parameters start at cache lines, so that vector code and bucket boundaries never share a line.
inline constexpr std::size_t kParameterAlignment = 64;

// `layers` has the first layer first. Parameter i of the plan is the i-th last of parameters(); the
// state keeps the order of the layers.
ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers);

}  // namespace ddpbench::nn
