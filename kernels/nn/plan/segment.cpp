// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The size is chosen so that the largest pair of maps that one operation touches fits the cache.
#include "kernels/nn/plan/segment.h"

#include <algorithm>

#include "base/error.h"

namespace ddpbench::nn {
namespace {

// Below 4 samples the convolutions lose more than the cache gains (SimpleCNN, 1 thread, AVX-512).
constexpr std::int64_t kSmallestMicroBatch = 4;

std::size_t map_bytes(const ops::Shape& shape) {
  return static_cast<std::size_t>(ops::element_count(shape)) * size_of(DataType::fp32);
}

// Bytes of the maps that a node reads and writes for one sample.
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

std::int64_t choose_micro_batch(std::int64_t batch, std::int64_t hint) {
  if (hint <= 0 || hint >= batch) return 0;
  std::int64_t size = hint;
  while (batch % size != 0) --size;
  return size < kSmallestMicroBatch ? 0 : size;
}

Segment choose_segment(const ModelSpec& model, const std::vector<FusedNode>& nodes,
                       const ops::OpBackend& backend, std::int64_t batch,
                       std::optional<std::int64_t> requested) {
  if (requested && (*requested < 0 || (*requested > 0 && batch % *requested != 0))) {
    throw ConfigError(
        fmt::format("the micro-batch {} does not divide the batch {}; take a divisor, or 0",
                    *requested, batch));
  }
  std::size_t length = 0;
  std::size_t largest = 0;
  while (length < nodes.size() && model.layers[nodes[length].layer].type != LayerType::linear) {
    largest = std::max(largest, touched_bytes(model, nodes, nodes[length]));
    ++length;
  }
  if (length == 0) return {};
  const std::int64_t size =
      requested ? *requested : choose_micro_batch(batch, backend.micro_batch_hint(largest));
  // One micro-batch of everything would be the plain plan with needless restrictions on layouts.
  if (size == 0 || size == batch) return {};
  return {length, size};
}

}  // namespace ddpbench::nn
