// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layers that run as one operation (conv2d+relu, linear+relu, relu+max_pool2d,
// batch_norm2d+relu, batch_norm2d+add+relu), and the leading part of a network that runs in
// micro-batches.
//
// ReLU commutes with a maximum, so conv2d, relu, max_pool2d becomes a convolution and a pool that
// rectifies. Its backward needs only the pooled map, a quarter of the memory traffic. A sum behind
// batch norm is taken in only with the ReLU behind it: the gradient of a sum alone costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/ops/backend.h"

namespace ddpbench::nn {

// One operation to plan. Its result is the output of its last layer.
struct FusedNode {
  std::string name;            // "pool1", or "fc1+relu3": the layers that run in it, in data order
  std::size_t layer = 0;       // of the model: its type, attributes and parameters count
  std::size_t last_layer = 0;  // the one whose output it gives
  bool fuse_relu = false;
  bool fuse_add = false;    // its last input is added before the ReLU
  std::vector<int> inputs;  // nodes, or kNetworkInput
};

// In topological order.
std::vector<FusedNode> fuse_layers(const ModelSpec& model);

// The leading part of a network that runs in micro-batches, and their size: feature maps of a few
// samples stay in the core's cache. Later layers have large weights and take the whole batch.
struct MicroBatching {
  std::size_t nodes = 0;         // the leading ones; 0: no micro-batches
  std::int64_t micro_batch = 0;  // samples; 0: no micro-batches
};

// `requested` is GraphOptions::micro_batch. Only planned operations tell whether they couple
// samples; the planner then ends the micro-batched part earlier. Throws ConfigError when
// `requested` does not divide `batch`.
MicroBatching choose_micro_batching(const ModelSpec& model, const std::vector<FusedNode>& nodes,
                                    const ops::OpBackend& backend, std::int64_t batch,
                                    std::optional<std::int64_t> requested);

// The largest divisor of `batch` that is at most `hint`. 0 when that is the batch itself, or so
// small that the operations' fixed costs outweigh the cache's gain.
std::int64_t choose_micro_batch(std::int64_t batch, std::int64_t hint);

}  // namespace ddpbench::nn
