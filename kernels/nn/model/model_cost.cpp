// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model_cost.h"

#include <algorithm>
#include <vector>

namespace ddpbench::nn {
namespace {

// Multiplications of a layer for one sample: each output is a sum over one row of the weights.
double multiplications(const ModelSpec& model, const LayerSpec& layer) {
  switch (layer.type) {
    case LayerType::conv2d:
    case LayerType::linear: {
      const ops::Shape weights = weight_shape(layer, model.input_of(layer));
      return static_cast<double>(ops::element_count(weights)) / static_cast<double>(weights[0]) *
             static_cast<double>(ops::element_count(layer.output_shape));
    }
    case LayerType::relu:
    case LayerType::max_pool2d:
    case LayerType::add:
    case LayerType::avg_pool2d:
    case LayerType::adaptive_avg_pool2d:
    case LayerType::concat:
    case LayerType::batch_norm2d:
    case LayerType::dropout:
      return 0;
  }
  return 0;
}

std::size_t readers_of(const ModelSpec& model, int layer) {
  std::size_t readers = 0;
  for (const LayerSpec& other : model.layers) {
    readers += static_cast<std::size_t>(std::ranges::count(other.inputs, layer));
  }
  return readers;
}

bool works_in_place(const ModelSpec& model, const LayerSpec& layer) {
  return layer.type == LayerType::relu && layer.inputs[0] != kNetworkInput &&
         readers_of(model, layer.inputs[0]) == 1;
}

}  // namespace

ModelCost cost_of(const ModelSpec& model) {
  ModelCost cost{.parameters = model.parameter_count()};
  std::vector<bool> trained;  // [layer] its output depends on parameters
  for (const LayerSpec& layer : model.layers) {
    const bool needs_grad_input = std::ranges::any_of(layer.inputs, [&](int input) {
      return input != kNetworkInput && trained[static_cast<std::size_t>(input)];
    });
    trained.push_back(needs_grad_input || !parameter_shapes(layer, model.input_of(layer)).empty());
    const double flops = 2 * multiplications(model, layer);
    cost.forward_flops += flops;
    cost.backward_flops += flops * (needs_grad_input ? 2 : 1);
    if (works_in_place(model, layer)) continue;
    cost.activation_bytes +=
        ops::element_count(layer.output_shape) * static_cast<std::int64_t>(sizeof(float));
  }
  return cost;
}

}  // namespace ddpbench::nn
