// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Merges layers that run as one operation: conv2d+relu, linear+relu, relu+max_pool2d.
//
// Rectification commutes with taking a maximum, so conv2d, relu, max_pool2d becomes a convolution
// and a pool that rectifies: its backward needs the pooled map only, a quarter of the memory
// traffic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

// One operation to plan. It computes what its last layer outputs.
struct FusedNode {
  std::string name;       // "pool1", or "fc1+relu3": the layers that run in it, in data order
  std::size_t layer = 0;  // of the model: whose type, attributes and parameters count
  bool fuse_relu = false;
  std::vector<int> inputs;  // nodes, or kNetworkInput
};

// In topological order; the last node's output are the logits.
std::vector<FusedNode> fuse_layers(const ModelSpec& model);

}  // namespace ddpbench::nn
