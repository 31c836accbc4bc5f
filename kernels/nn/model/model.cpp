// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model.h"

namespace ddpbench::nn {

ops::Shape weight_shape(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type == LayerType::conv2d)
    return {layer.out, input[0], layer.window.kernel_h, layer.window.kernel_w};
  return {layer.out, ops::element_count(input)};
}

std::int64_t ModelSpec::classes() const {
  return layers[static_cast<std::size_t>(output)].output_shape[0];
}

std::int64_t ModelSpec::parameter_count() const {
  std::int64_t count = 0;
  for (const LayerSpec& layer : layers) {
    if (!has_weights(layer.type)) continue;
    count +=
        ops::element_count(weight_shape(layer, input_of(layer))) + (layer.bias ? layer.out : 0);
  }
  return count;
}

std::int64_t ModelSpec::tensor_count() const {
  std::int64_t count = 0;
  for (const LayerSpec& layer : layers) {
    if (has_weights(layer.type)) count += layer.bias ? 2 : 1;
  }
  return count;
}

const ops::Shape& ModelSpec::input_of(const LayerSpec& layer) const {
  const int from = layer.inputs[0];
  return from == kNetworkInput ? input_shape : layers[static_cast<std::size_t>(from)].output_shape;
}

}  // namespace ddpbench::nn
