// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/independent_channels.h"

#include <algorithm>
#include <numeric>

namespace ddpbench::bench {
namespace {

using nn::LayerSpec;
using nn::LayerType;

std::int64_t pixels_of(const LayerSpec& layer) {
  return layer.window.kernel_h * layer.window.kernel_w;
}

// Whether each pixel of the output depends on the same pixel of the input alone.
bool is_pointwise(const LayerSpec& layer) {
  switch (layer.type) {
    case LayerType::conv2d:
      return pixels_of(layer) == 1;
    case LayerType::relu:
    case LayerType::batch_norm2d:
    case LayerType::dropout:
    case LayerType::add:
    case LayerType::concat:
      return true;
    default:
      return false;
  }
}

std::int64_t sum_of(const std::map<int, std::int64_t>& roots) {
  return std::accumulate(roots.begin(), roots.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& root) { return sum + root.second; });
}

}  // namespace

IndependentChannels::IndependentChannels(const nn::ModelSpec& model) {
  const std::int64_t channels = model.input_shape[0];
  all_of_root_[nn::kNetworkInput] = channels;
  of_[nn::kNetworkInput] = {{nn::kNetworkInput, channels}};
  int index = 0;
  for (const LayerSpec& layer : model.layers) {
    of_[index] = roots_of_output(index, layer);
    ++index;
  }
}

std::int64_t IndependentChannels::of_input(const LayerSpec& layer) const {
  return sum_of(roots_of_input(layer));
}

IndependentChannels::Roots IndependentChannels::roots_of_input(const LayerSpec& layer) const {
  Roots all;
  for (const int input : layer.inputs) {
    for (const auto& [root, count] : of_.at(input)) {
      all[root] = std::min(all[root] + count, all_of_root_.at(root));
    }
  }
  return all;
}

IndependentChannels::Roots IndependentChannels::roots_of_output(int index, const LayerSpec& layer) {
  Roots roots = roots_of_input(layer);
  const std::int64_t channels = layer.output_shape[0];
  if (is_pointwise(layer)) {
    for (auto& [root, count] : roots) count = std::min(count, channels);
    return roots;
  }
  // A linear layer mixes all pixels, a convolution those of its window.
  const std::int64_t pixels = layer.type == LayerType::conv2d ? pixels_of(layer) : 1;
  const std::int64_t count =
      layer.type == LayerType::linear ? channels : std::min(channels, sum_of(roots) * pixels);
  all_of_root_[index] = count;
  return {{index, count}};
}

}  // namespace ddpbench::bench
