// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One entry of a model's "layers": read from JSON, and its output shape inferred from its inputs'.
#pragma once

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
  std::vector<std::string> input_pointers;  // JSON pointer of each of them
  bool has_init = false;                    // "init" is there
  std::int64_t declared_in = 0;  // in_channels, in_features or num_features; 0: not given
  std::string pointer;           // "/layers/3"
  // What ends messages about a layer of a block: " (in \"b.0\", which /layers/3 places)".
  std::string placed;
};

// The largest number in a model, above any size of a layer that makes sense.
inline constexpr std::int64_t kMostExtent = 1 << 20;

// The most inputs of one `concat`.
inline constexpr std::size_t kMostInputs = 256;

// The longest name of a layer, in characters. Messages and names of tensors contain it.
inline constexpr std::size_t kLongestName = 200;

// Throws ConfigError unless `name` is made of letters, digits, '_', '.' and '-', and not too long.
// `what` it is names it in the message ("layer name").
void expect_name(const std::string& origin, const std::string& pointer, std::string_view name,
                 std::string_view what);
// A layer's name, which is not that of the network's input.
std::string read_name(const JsonReader& json);

// Reads how weights begin: a word, or the deviation of a normal distribution. Throws ConfigError.
Init read_init(const JsonReader& json);

// `previous` is the name of the entry before, or kInputName for the first. Throws ConfigError.
LayerEntry read_layer(const JsonReader& json, const std::string& previous);

// The output's shape for `inputs`, both without the batch. When they do not fit, throws ConfigError
// that names `origin`, the pointer of the entry or its attribute, and the given shapes.
ops::Shape infer_shape(const LayerEntry& entry, const std::vector<ops::Shape>& inputs,
                       const std::string& origin);

}  // namespace ddpbench::nn
