// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A layer is merged into another only when nobody else reads the tensor between them.
#include "kernels/nn/plan/fusion.h"

#include <algorithm>

namespace ddpbench::nn {
namespace {

constexpr int kNone = -1;

std::vector<std::vector<int>> consumers_of(const ModelSpec& model) {
  std::vector<std::vector<int>> consumers(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const int input : model.layers[i].inputs) {
      if (input != kNetworkInput)
        consumers[static_cast<std::size_t>(input)].push_back(static_cast<int>(i));
    }
  }
  return consumers;
}

// Which layer runs inside which other one; kNone: on its own.
class Fusion {
 public:
  explicit Fusion(const ModelSpec& model)
      : model_(model), consumers_(consumers_of(model)), into_(model.layers.size(), kNone) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].type == LayerType::relu) into_[i] = host_of_relu(i);
    }
  }

  std::vector<FusedNode> nodes() const {
    std::vector<FusedNode> nodes;
    std::vector<int> node_of(model_.layers.size(), kNone);
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      if (waits_for_relu(i)) continue;
      const std::size_t host = into_[i] == kNone ? i : static_cast<std::size_t>(into_[i]);
      if (host > i) continue;  // a relu that its pool takes in
      FusedNode node = make_node(host);
      for (int& input : node.inputs) {
        if (input != kNetworkInput) input = node_of[static_cast<std::size_t>(input)];
      }
      node_of[i] = static_cast<int>(nodes.size());
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

 private:
  // The pool that reads the relu and nobody else does, else the conv2d or linear layer before it.
  int host_of_relu(std::size_t relu) const {
    const std::vector<int>& readers = consumers_[relu];
    if (readers.size() == 1 && type(readers[0]) == LayerType::max_pool2d) return readers[0];
    const int before = model_.layers[relu].inputs[0];
    if (before == kNetworkInput || consumers_[static_cast<std::size_t>(before)].size() != 1)
      return kNone;
    const bool fusible = type(before) == LayerType::conv2d || type(before) == LayerType::linear;
    return fusible ? before : kNone;
  }

  LayerType type(int layer) const { return model_.layers[static_cast<std::size_t>(layer)].type; }

  // A conv2d or linear layer whose relu, later in the order, gives the node's output.
  bool waits_for_relu(std::size_t layer) const {
    return std::any_of(consumers_[layer].begin(), consumers_[layer].end(), [&](int reader) {
      return into_[static_cast<std::size_t>(reader)] == static_cast<int>(layer);
    });
  }

  // Inputs are still layers: those whose output the node reads.
  FusedNode make_node(std::size_t host) const {
    FusedNode node{model_.layers[host].name, host, false, model_.layers[host].inputs};
    for (std::size_t relu = 0; relu < into_.size(); ++relu) {
      if (into_[relu] != static_cast<int>(host)) continue;
      node.fuse_relu = true;
      const bool before = relu < host;
      if (before) node.inputs = model_.layers[relu].inputs;
      node.name = before ? model_.layers[relu].name + "+" + node.name
                         : node.name + "+" + model_.layers[relu].name;
    }
    return node;
  }

  const ModelSpec& model_;
  std::vector<std::vector<int>> consumers_;
  std::vector<int> into_;
};

}  // namespace

std::vector<FusedNode> fuse_layers(const ModelSpec& model) { return Fusion(model).nodes(); }

}  // namespace ddpbench::nn
