// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "base/random.h"

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
  if (later != std::array<std::int64_t, 6>{1, 1, 1, 1, 0, 0}) hash = hash_integers(hash, later);
  if (layer.init != Init{}) {
    hash = hash_integers(
        hash, std::array<std::uint64_t, 2>{static_cast<std::uint64_t>(layer.init.kind),
                                           std::bit_cast<std::uint64_t>(layer.init.deviation)});
  }
  if (layer.type == LayerType::dropout) {
    return combine_hash(hash, std::bit_cast<std::uint64_t>(layer.drop_probability));
  }
  if (layer.type != LayerType::batch_norm2d) return hash;
  return hash_integers(hash,
                       std::array<std::uint64_t, 3>{std::bit_cast<std::uint64_t>(layer.eps),
                                                    std::bit_cast<std::uint64_t>(layer.momentum),
                                                    layer.affine ? 1U : 0U});
}

std::int64_t one(const ops::Shape&) { return 1; }

// The sum of `size` over all shapes that `shapes_of` gives for the layers.
std::int64_t sum_over(const ModelSpec& model,
                      std::vector<ops::Shape> (*shapes_of)(const LayerSpec&, const ops::Shape&),
                      std::int64_t (*size)(const ops::Shape&)) {
  std::int64_t sum = 0;
  for (const LayerSpec& layer : model.layers) {
    for (const ops::Shape& shape : shapes_of(layer, model.input_of(layer))) sum += size(shape);
  }
  return sum;
}

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

std::uint64_t content_hash(const ModelSpec& model) {
  std::uint64_t hash = hash_integers(model.layers.size(), model.input_shape);
  for (const LayerSpec& layer : model.layers) hash = hash_layer(hash, layer);
  return hash_losses(combine_hash(hash, static_cast<std::uint64_t>(model.output)), model);
}

std::uint64_t hash_losses(std::uint64_t hash, const ModelSpec& model) {
  const LossSpec& loss = model.loss;
  if (loss.label_smoothing != 0) {
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(loss.label_smoothing));
  }
  if (loss.ignore_index != ops::kIgnoresNothing) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(loss.ignore_index));
  }
  for (const AuxiliaryOutput& output : model.auxiliary) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(output.layer));
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(output.weight));
    hash = combine_hash(hash, std::bit_cast<std::uint64_t>(output.label_smoothing));
  }
  return hash;
}

ops::CrossEntropyDesc loss_of(const ModelSpec& model, std::size_t k, std::int64_t batch) {
  ops::CrossEntropyDesc desc{.batch = batch,
                             .classes = model.classes(),
                             .positions = model.predictions(),
                             .label_smoothing = model.loss.label_smoothing,
                             .ignore_index = model.loss.ignore_index};
  if (k == 0) return desc;
  desc.label_smoothing = model.auxiliary[k - 1].label_smoothing;
  desc.weight = model.auxiliary[k - 1].weight;
  desc.counts_hits = false;
  return desc;
}

ops::Shape weight_shape(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type == LayerType::conv2d)
    return {layer.out, input[0] / layer.groups, layer.window.kernel_h, layer.window.kernel_w};
  return {layer.out, ops::element_count(input)};
}

std::vector<ops::Shape> parameter_shapes(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type == LayerType::batch_norm2d) {
    if (!layer.affine) return {};
    return {{input[0]}, {input[0]}};
  }
  if (!has_weights(layer.type)) return {};
  std::vector<ops::Shape> shapes = {weight_shape(layer, input)};
  if (layer.bias) shapes.push_back({layer.out});
  return shapes;
}

std::vector<ops::Shape> state_shapes(const LayerSpec& layer, const ops::Shape& input) {
  if (layer.type != LayerType::batch_norm2d) return {};
  return {{input[0]}, {input[0]}, {}};
}

const ops::Shape& ModelSpec::logits_shape() const {
  return layers[static_cast<std::size_t>(output)].output_shape;
}

std::int64_t ModelSpec::predictions() const {
  return ops::element_count(logits_shape()) / classes();
}

std::int64_t ModelSpec::parameter_count() const {
  return sum_over(*this, parameter_shapes, ops::element_count);
}

std::int64_t ModelSpec::tensor_count() const { return sum_over(*this, parameter_shapes, one); }

std::int64_t ModelSpec::state_count() const {
  return sum_over(*this, state_shapes, ops::element_count);
}

std::int64_t ModelSpec::state_tensor_count() const { return sum_over(*this, state_shapes, one); }

const ops::Shape& ModelSpec::input_of(const LayerSpec& layer) const {
  const int from = layer.inputs[0];
  return from == kNetworkInput ? input_shape : layers[static_cast<std::size_t>(from)].output_shape;
}

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
