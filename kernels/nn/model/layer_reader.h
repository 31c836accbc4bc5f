// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "layers" of a model, read from JSON, their output shapes inferred from their inputs', and its
// "blocks": layers that are described once and placed several times. docs/networks.md explains the
// format. Reading puts the blocks' layers in the place of the entries that name them, so that all
// other code sees layers only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// The name under which layers refer to the network's input.
inline constexpr std::string_view kInputName = "input";

struct LayerEntry {
  LayerSpec spec;                        // inputs are positions in LayerList; no output_shape yet
  std::vector<std::string> input_names;  // "inputs", or the layer before
  std::vector<JsonPlace> input_places;   // of each of them
  bool has_init = false;                 // "init" is there
  std::int64_t declared_in = 0;          // in_channels, in_features or num_features; 0: not given
  JsonPlace place;  // "/layers/3"; of a block's layer "/layers/3 -> /blocks/residual/layers/0"
};

// The largest number in a model, above any size of a layer that makes sense.
inline constexpr std::int64_t kMostExtent = 1 << 20;

// The most inputs of one `concat`.
inline constexpr std::size_t kMostInputs = 256;

// The longest name of a layer, in characters. Messages and names of tensors contain it.
inline constexpr std::size_t kLongestName = 200;

// Throws ConfigError unless `name` is made of letters, digits, '_', '.' and '-', and not too long.
// `what` it is names it in the message ("layer name").
void expect_name(const JsonPlace& place, std::string_view name, std::string_view what);
// A layer's name, which is not that of the network's input.
std::string read_name(const JsonReader& json);

// Reads how weights begin: a word, or the deviation of a normal distribution. Throws ConfigError.
Init read_init(const JsonReader& json);

// `previous` is the name of the entry before, or kInputName for the first. Throws ConfigError.
LayerEntry read_layer(const JsonReader& json, const std::string& previous);

// Gives an `upsample_bilinear` without a size that of its second input, of shape inputs[1], which
// is then no input. Returns whether it did. Throws ConfigError.
bool take_size(LayerEntry& entry, const std::vector<ops::Shape>& inputs);

// The output's shape for `inputs`, both without the batch. When they do not fit, throws ConfigError
// that names the place of the entry or its attribute, and the given shapes.
ops::Shape infer_shape(const LayerEntry& entry, const std::vector<ops::Shape>& inputs);

// The most layers of a network whose blocks are in their places. This is ten times as many as the
// deepest trained networks have. Planning more would take minutes.
inline constexpr std::size_t kMostLayers = 10'000;

struct LayerList {
  // In the file's order. Names and inputs are those of the whole network: the layer "conv1" of a
  // block that is placed as "layer1.0" is "layer1.0.conv1".
  std::vector<LayerEntry> entries;
  // Where in it each layer is, and what each placed block and each repetition gives.
  std::map<std::string, int, std::less<>> positions;
  int last = 0;  // the position of what the file's last entry gives

  // Throws ConfigError that begins with `what` where there is no layer of that name.
  int position_of(const std::string& name, const JsonPlace& place, const std::string& what) const;
  LayerEntry& operator[](int position) { return entries[static_cast<std::size_t>(position)]; }
  const LayerEntry& operator[](int position) const {
    return entries[static_cast<std::size_t>(position)];
  }
};

// `model` is the whole document. Throws ConfigError for entries that are no layers, for blocks that
// are unknown, wrongly parametrised or nested too deep, for names that are used twice, and for
// inputs that are no layers.
LayerList read_layers(const JsonReader& model);

}  // namespace ddpbench::nn
