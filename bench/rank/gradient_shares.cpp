// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/gradient_shares.h"

#include <algorithm>
#include <vector>

namespace ddpbench::bench {
namespace {

// What every reader of a layer's output takes out of each of its channels.
struct TakenOut {
  bool shift = false, scale = false;
};

bool is_output(const nn::ModelSpec& model, int layer) {
  for (std::size_t k = 0; k < model.output_count(); ++k) {
    if (model.output_layer(k) == layer) return true;
  }
  return false;
}

// Of each layer. A sum passes a shift on to its readers, but a scale only of one of its terms.
std::vector<TakenOut> find_taken_out(const nn::ModelSpec& model) {
  const auto count = static_cast<int>(model.layers.size());
  std::vector<TakenOut> found(model.layers.size());
  for (int i = count - 1; i >= 0; --i) {
    TakenOut all{true, true};
    bool is_read = false;
    for (int r = i + 1; r < count; ++r) {
      const nn::LayerSpec& reader = model.layers[static_cast<std::size_t>(r)];
      if (std::ranges::count(reader.inputs, i) == 0) continue;
      is_read = true;
      const TakenOut behind = found[static_cast<std::size_t>(r)];
      const bool normalizes = reader.type == nn::LayerType::batch_norm2d;
      const bool joins = reader.type == nn::LayerType::concat;
      all.scale = all.scale && (normalizes || (joins && behind.scale));
      all.shift = all.shift &&
                  (normalizes || ((joins || reader.type == nn::LayerType::add) && behind.shift));
    }
    if (is_read && !is_output(model, i)) found[static_cast<std::size_t>(i)] = all;
  }
  return found;
}

// The weights of a channel of the output.
std::int64_t weights_of_channel(const nn::ModelSpec& model, const nn::LayerSpec& layer) {
  if (layer.type == nn::LayerType::batch_norm2d) return 1;
  const int input = layer.inputs[0];
  const ops::Shape weight =
      nn::weight_shape(layer, input == nn::kNetworkInput
                                  ? model.input_shape
                                  : model.layers[static_cast<std::size_t>(input)].output_shape);
  return ops::element_count(weight) / weight[0];
}

}  // namespace

std::map<std::string, double> gradient_shares(const nn::ModelSpec& model) {
  std::map<std::string, double> shares;
  const std::vector<TakenOut> taken = find_taken_out(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const nn::LayerSpec& layer = model.layers[i];
    if (layer.type != nn::LayerType::batch_norm2d && !nn::has_weights(layer.type)) continue;
    if (taken[i].shift) shares[layer.name + ".bias"] = 0;
    if (!taken[i].scale) continue;
    const auto weights = static_cast<double>(weights_of_channel(model, layer));
    shares[layer.name + ".weight"] = (weights - 1) / weights;
  }
  return shares;
}

}  // namespace ddpbench::bench
