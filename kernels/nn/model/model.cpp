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
    if (layer.type != LayerType::conv2d && layer.type != LayerType::linear) continue;
    const int from = layer.inputs[0];
    const ops::Shape& input =
        from == kNetworkInput ? input_shape : layers[static_cast<std::size_t>(from)].output_shape;
    count += ops::element_count(weight_shape(layer, input)) + (layer.bias ? layer.out : 0);
  }
  return count;
}

}  // namespace ddpbench::nn
