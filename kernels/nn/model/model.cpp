// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model.h"

#include <array>
#include <iterator>

#include "base/hash.h"

namespace ddpbench::nn {
namespace {

template <typename Integers>
std::uint64_t hash_integers(std::uint64_t hash, const Integers& values) {
  hash = combine_hash(hash, std::size(values));
  for (const auto value : values) hash = combine_hash(hash, static_cast<std::uint64_t>(value));
  return hash;
}

std::uint64_t hash_layer(std::uint64_t hash, const LayerSpec& layer) {
  const ops::Window2d& window = layer.window;
  for (const std::string_view text : {std::string_view(layer.name), to_string(layer.type)}) {
    hash = hash_bytes(text.data(), text.size(), hash);
  }
  hash = hash_integers(hash, layer.inputs);
  hash = hash_integers(hash, std::array<std::int64_t, 8>{
                                 layer.out, layer.bias ? 1 : 0, window.kernel_h, window.kernel_w,
                                 window.stride_h, window.stride_w, window.pad_h, window.pad_w});
  // These came later. A network without them keeps the hash that older reports have.
  const std::array<std::int64_t, 6> later = {layer.groups,     layer.dilation.h,
                                             layer.dilation.w, layer.count_include_pad ? 1 : 0,
                                             layer.out_h,      layer.out_w};
  return later == std::array<std::int64_t, 6>{1, 1, 1, 1, 0, 0} ? hash : hash_integers(hash, later);
}

}  // namespace

std::uint64_t content_hash(const ModelSpec& model) {
  std::uint64_t hash = hash_integers(model.layers.size(), model.input_shape);
  for (const LayerSpec& layer : model.layers) hash = hash_layer(hash, layer);
  return combine_hash(hash, static_cast<std::uint64_t>(model.output));
}

ops::Shape weight_shape(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type == LayerType::conv2d)
    return {layer.out, input[0] / layer.groups, layer.window.kernel_h, layer.window.kernel_w};
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
