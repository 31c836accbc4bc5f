// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "layers" of a model and its "blocks": layers that are described once and placed several
// times. docs/networks.md explains the format. Reading puts the blocks' layers in the place of the
// entries that name them, so that all other code sees layers only.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/nn/model/layer_reader.h"

namespace ddpbench::nn {

// The most layers of a network whose blocks are in their places. This is ten times as many as the
// deepest trained networks have. Planning more would take minutes.
inline constexpr std::size_t kMostLayers = 10'000;

struct LayerList {
  // In the file's order. Names and inputs are those of the whole network: the layer "conv1" of a
  // block that is placed as "layer1.0" is "layer1.0.conv1".
  std::vector<LayerEntry> entries;
  // For each placed block, and each repetition: what its name stands for where a layer reads it.
  // That is a layer or, where the block ends in a block, again a name of this table.
  std::map<std::string, std::string, std::less<>> outputs;
  std::string last;  // the name of what the file's last entry gives: a layer or a name of `outputs`
};

// `document` is the whole model, `origin` its name in messages. Throws ConfigError for entries that
// are no layers, for blocks that are unknown, unused, wrongly parametrised or contain themselves,
// and for names that are used twice. Inputs are not looked up.
LayerList read_layers(const nlohmann::json& document, const std::string& origin);

}  // namespace ddpbench::nn
