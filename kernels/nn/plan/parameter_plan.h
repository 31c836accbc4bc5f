// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// ParameterPlan: the place of each parameter in the flat buffers of weights, gradients and
// optimizer state, and of each tensor of the operations' state in a flat buffer of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops/op.h"

namespace ddpbench::nn {

// A tensor of an operation, with the layer's name before its own ("conv1.weight"), and its place in
// the flat buffers, 64-byte aligned.
template <typename Spec>
struct PlacedTensor : Spec {
  std::size_t offset_bytes = 0, bytes = 0;
};
using ParameterInfo = PlacedTensor<ops::ParameterSpec>;
using StateInfo = PlacedTensor<ops::StateSpec>;

// Index order is the reverse of PyTorch's parameters(). Backward produces gradients in this order.
// Buckets and server shards are contiguous ranges of it.
struct ParameterPlan {
  std::vector<ParameterInfo> parameters;
  std::size_t flat_bytes = 0;         // of each flat buffer, alignment gaps included
  std::vector<ParameterInfo> frozen;  // not trained: behind the others, in the weights alone
  std::size_t weight_bytes = 0;       // of the flat weights
  std::vector<StateInfo> state;       // the first layer's first
  std::size_t state_bytes = 0;        // of the flat state, alignment gaps included
  // These say of each parameter's gradient where it lies in the memory of gradients (as in the
  // weights, unless GraphOptions::place_gradients moves it), and after how many complete ones
  // backward first writes it.
  std::vector<std::size_t> gradient_offsets, written_after;
  std::size_t gradient_bytes = 0;
  // Whether a unit may begin at a parameter: layers before and behind it are not interleaved. Empty
  // where no store was given.
  std::vector<bool> may_begin_unit;
  // Where weights come and go (WeightStore): the end parameter of each unit, and of each tensor the
  // place in the memory of weights. Empty: all weights stay, and lie as in the flat buffer.
  std::vector<std::size_t> units, weight_offsets;
  std::size_t resident_bytes = 0;
  // A hash of names, shapes, types, layout tags and offsets. Ranks may train together only if it is
  // equal.
  std::uint64_t hash = 0;

  bool has_units() const { return !units.empty(); }
  std::size_t held_bytes() const { return has_units() ? resident_bytes : weight_bytes; }
  std::size_t frozen_bytes() const { return weight_bytes - flat_bytes; }
  std::size_t weight_offset(std::size_t i) const {
    return has_units() ? weight_offsets[i] : tensor(i).offset_bytes;
  }
  std::size_t tensor_count() const { return parameters.size() + frozen.size(); }
  const ParameterInfo& tensor(std::size_t i) const {
    return i < parameters.size() ? parameters[i] : frozen.at(i - parameters.size());
  }
};

// The parameters of one layer, in PyTorch's order (weight before bias).
struct LayerParameters {
  std::string layer;
  std::vector<ops::ParameterSpec> specs;
  std::vector<ops::StateSpec> state = {};
  bool trainable = true;
};

// Parameters start at cache lines, so that vector code and bucket boundaries never share a line.
inline constexpr std::size_t kParameterAlignment = 64;

// `layers` has the first layer first. Parameter i of the plan is the i-th last of parameters(); the
// state keeps the order of the layers.
ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers);

}  // namespace ddpbench::nn
