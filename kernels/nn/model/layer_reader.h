// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One entry of a model's "layers": from JSON, and the shape that it gives for its inputs' shapes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// The name under which layers refer to the network's input.
inline constexpr std::string_view kInputName = "input";

struct LayerEntry {
  LayerSpec spec;                           // inputs and output_shape still empty
  std::vector<std::string> input_names;     // "inputs", or the layer before
  std::vector<std::string> input_pointers;  // where each of them stands
  std::optional<std::int64_t> declared_in;  // in_channels or in_features
  std::string pointer;                      // "/layers/3"
};

// The most that a number of a model may be: above any size of a layer that makes sense, and small
// enough that products of four fit 128 bits.
inline constexpr std::int64_t kMostExtent = 1 << 20;

// `previous` is the name of the entry before, kInputName for the first. Throws ConfigError.
LayerEntry read_layer(const JsonReader& json, const std::string& previous);

// The output's shape without the batch, for `inputs` without it. Throws ConfigError naming
// `origin`, the entry's pointer (or the attribute's) and the shapes met when they do not fit.
ops::Shape infer_shape(const LayerEntry& entry, std::span<const ops::Shape> inputs,
                       const std::string& origin);

}  // namespace ddpbench::nn
