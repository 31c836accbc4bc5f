// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads what a network is trained for: "loss" and "auxiliary" of a model file (docs/networks.md).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// Throws ConfigError for unknown keys or words, a smoothing that is no share, and a label that
// cannot be.
LossSpec read_loss(const JsonReader& json);

// An entry of "auxiliary", whose layer is not looked up yet.
struct AuxiliaryEntry {
  AuxiliaryOutput output;  // without its layer
  std::string name;        // of the layer
  std::string pointer;     // to that name
};
// Throws ConfigError as read_loss does, and for weights that are not positive or too many entries.
std::vector<AuxiliaryEntry> read_auxiliary(const JsonReader& json);

}  // namespace ddpbench::nn
