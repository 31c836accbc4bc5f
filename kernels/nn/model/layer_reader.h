// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One entry of a model's "layers": JSON to LayerSpec, before inputs and shapes are known.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/nn/model/json_reader.h"
#include "kernels/nn/model/model_spec.h"

namespace ddpbench::nn {

// The name under which layers refer to the network's input.
inline constexpr std::string_view kInputName = "input";

std::string_view to_string(LayerType type);  // "conv2d", ...: the words of "type"

struct LayerEntry {
  LayerSpec spec;                           // inputs and output_shape still empty
  std::vector<std::string> input_names;     // "inputs", or the layer before
  std::vector<std::string> input_pointers;  // where each of them stands
  std::optional<std::int64_t> declared_in;  // in_channels or in_features
  std::string pointer;                      // "/layers/3"
};

// `previous` is the name of the entry before, kInputName for the first. Throws ConfigError.
LayerEntry read_layer(const JsonReader& json, const std::string& previous);

}  // namespace ddpbench::nn
