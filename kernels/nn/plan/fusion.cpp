// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A layer is merged into another only when no other layer reads the tensor between them.
#include "kernels/nn/plan/fusion.h"

#include <algorithm>

#include "base/error.h"

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

// The layer that each layer runs inside; kNone: on its own.
class Fusion {
 public:
  explicit Fusion(const ModelSpec& model)
      : model_(model),
        consumers_(consumers_of(model)),
        into_(model.layers.size(), kNone),
        relus_(model.layers.size()),
        sums_(model.layers.size(), kNone) {
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (model.layers[i].type == LayerType::relu) {
        into_[i] = host_of_relu(i);
        if (into_[i] != kNone) relus_[static_cast<std::size_t>(into_[i])].push_back(i);
      } else if (model.layers[i].type == LayerType::add) {
        into_[i] = host_of_sum(i);
        if (into_[i] != kNone) sums_[static_cast<std::size_t>(into_[i])] = static_cast<int>(i);
      }
    }
  }

  std::vector<FusedNode> nodes() const {
    std::vector<FusedNode> nodes;
    std::vector<int> node_of(model_.layers.size(), kNone);
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      if (goes_on(i)) continue;
      const std::size_t host = into_[i] == kNone ? i : static_cast<std::size_t>(into_[i]);
      if (host > i) continue;  // a relu inside its pool
      FusedNode node = make_node(host);
      node.last_layer = i;
      for (int& input : node.inputs) {
        if (input != kNetworkInput) input = node_of[static_cast<std::size_t>(input)];
      }
      node_of[i] = static_cast<int>(nodes.size());
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

 private:
  // The pool that alone reads the relu; kNone: another layer does.
  int pool_of(std::size_t relu) const {
    const std::vector<int>& readers = consumers_[relu];
    return readers.size() == 1 && type(readers[0]) == LayerType::max_pool2d ? readers[0] : kNone;
  }

  // That pool, else the conv2d, linear or batch_norm2d layer before it or before the sum before it.
  int host_of_relu(std::size_t relu) const {
    const int pool = pool_of(relu);
    if (pool != kNone) return pool;
    const int before = model_.layers[relu].inputs[0];
    if (!is_read_once(before)) return kNone;
    if (type(before) == LayerType::add) return into_[static_cast<std::size_t>(before)];
    const bool fusible = type(before) == LayerType::conv2d || type(before) == LayerType::linear ||
                         type(before) == LayerType::batch_norm2d;
    return fusible ? before : kNone;
  }

  // The last batch_norm2d layer that only this sum reads, where only a relu reads the sum. Whatever
  // else the sum reads is computed before.
  int host_of_sum(std::size_t sum) const {
    if (!is_read_once(static_cast<int>(sum))) return kNone;
    const int reader = consumers_[sum][0];
    if (type(reader) != LayerType::relu || pool_of(static_cast<std::size_t>(reader)) != kNone) {
      return kNone;
    }
    int host = kNone;
    for (const int input : model_.layers[sum].inputs) {
      if (is_read_once(input) && type(input) == LayerType::batch_norm2d) {
        host = std::max(host, input);
      }
    }
    return host;
  }

  LayerType type(int layer) const { return model_.layers[static_cast<std::size_t>(layer)].type; }
  bool is_read_once(int layer) const {
    return layer != kNetworkInput && consumers_[static_cast<std::size_t>(layer)].size() == 1;
  }

  // Whether a later layer, a relu or a sum, gives the output of this layer's node.
  bool goes_on(std::size_t layer) const {
    const int host = into_[layer];
    return std::any_of(consumers_[layer].begin(), consumers_[layer].end(), [&](int reader) {
      const int into = into_[static_cast<std::size_t>(reader)];
      return into == static_cast<int>(layer) || (into != kNone && into == host);
    });
  }

  // The inputs are still layers: those whose outputs the node reads.
  FusedNode make_node(std::size_t host) const {
    FusedNode node{
        .name = model_.layers[host].name, .layer = host, .inputs = model_.layers[host].inputs};
    if (sums_[host] != kNone) {
      const LayerSpec& sum = model_.layers[static_cast<std::size_t>(sums_[host])];
      node.fuse_add = true;
      node.name += "+" + sum.name;
      const bool first = sum.inputs[0] == static_cast<int>(host);
      node.inputs.push_back(sum.inputs[first ? 1 : 0]);
    }
    for (const std::size_t relu : relus_[host]) {
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
  std::vector<std::vector<std::size_t>> relus_;  // that run inside each layer
  std::vector<int> sums_;                        // the same; kNone: no sum
};

// Below 4 samples the convolutions lose more than the cache gains (SimpleCNN, 1 thread, AVX-512).
constexpr std::int64_t kSmallestMicroBatch = 4;

std::size_t map_bytes(const ops::Shape& shape) {
  return static_cast<std::size_t>(ops::element_count(shape)) * size_of(DataType::fp32);
}

// Linear layers take the whole batch at once; batch norm couples its samples.
bool ends_micro_batches(LayerType type) {
  return type == LayerType::linear || type == LayerType::batch_norm2d;
}

// The bytes of the maps that a node reads and writes for one sample.
std::size_t touched_bytes(const ModelSpec& model, const std::vector<FusedNode>& nodes,
                          const FusedNode& node) {
  std::size_t bytes = map_bytes(model.layers[node.layer].output_shape);
  for (const int input : node.inputs) {
    bytes +=
        map_bytes(input == kNetworkInput
                      ? model.input_shape
                      : model.layers[nodes[static_cast<std::size_t>(input)].layer].output_shape);
  }
  return bytes;
}

}  // namespace

std::vector<FusedNode> fuse_layers(const ModelSpec& model) { return Fusion(model).nodes(); }

std::int64_t choose_micro_batch(std::int64_t batch, std::int64_t hint) {
  if (hint <= 0 || hint >= batch) return 0;
  std::int64_t size = hint;
  while (batch % size != 0) --size;
  return size < kSmallestMicroBatch ? 0 : size;
}

MicroBatching choose_micro_batching(const ModelSpec& model, const std::vector<FusedNode>& nodes,
                                    const ops::OpBackend& backend, std::int64_t batch,
                                    std::optional<std::int64_t> requested) {
  if (requested && (*requested < 0 || (*requested > 0 && batch % *requested != 0))) {
    throw ConfigError(
        fmt::format("the micro-batch {} does not divide the batch {}; take a divisor, or 0",
                    *requested, batch));
  }
  std::size_t length = 0;
  std::size_t largest = 0;
  while (length < nodes.size() && !ends_micro_batches(model.layers[nodes[length].layer].type)) {
    largest = std::max(largest, touched_bytes(model, nodes, nodes[length]));
    ++length;
  }
  if (length == 0) return {};
  // One operation alone passes nothing on within a micro-batch.
  const bool alone = length == 1 && nodes.size() > 1 &&
                     model.layers[nodes[1].layer].type == LayerType::batch_norm2d;
  if (alone && !requested) return {};
  const std::int64_t size =
      requested ? *requested : choose_micro_batch(batch, backend.micro_batch_hint(largest));
  // One micro-batch of everything would be the plain plan with needless restrictions on layouts.
  if (size == 0 || size == batch) return {};
  return {length, size};
}

}  // namespace ddpbench::nn
