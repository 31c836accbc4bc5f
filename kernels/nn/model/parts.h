// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of a network: consecutive layers, each part a network of its own that reads what the one
// before it gives. So a network can be cut only where exactly one value crosses. The loss reads
// outputs behind all layers, so that they are in the last part.
#pragma once

#include <string>
#include <vector>

#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// A place behind a layer where exactly one value crosses: that layer's output.
struct Cut {
  int layer = 0;  // index of the layer
  // Floating-point operations a sample, forward and backward (ModelCost), up to there.
  double flops_before = 0;
};
// All of them, from the first layer to the last.
std::vector<Cut> possible_cuts(const ModelSpec& model);

// The layers behind which `parts` parts of the network end, but for the last part. `wanted`: their
// names; empty: those among the possible cuts whose largest part has the fewest operations, and
// among equal ones those whose crossing values are smallest. Throws ConfigError, one sentence that
// begins with `origin` and names a layer, for a name that is no layer, a place where other than one
// value crosses, more parts than cuts make, and a part without anything to train.
std::vector<int> choose_cuts(const ModelSpec& model, int parts,
                             const std::vector<std::string>& wanted, const std::string& origin);

// The network of the layers [first, end). REQUIRES: cuts, or the ends of the network, are there.
ModelSpec layers_of(const ModelSpec& model, int first, int end);
// How many layers of the whole come before those of such a network.
int layers_before(const ModelSpec& model, const ModelSpec& part);
// Part `index` of those that end behind the layers `cuts`.
ModelSpec part_of(const ModelSpec& model, const std::vector<int>& cuts, int index);

}  // namespace ddpbench::nn
