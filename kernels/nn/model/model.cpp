// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/model/model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>

#include "base/random.h"
#include "base/ranges.h"

namespace ddpbench::nn {
namespace {

std::uint64_t hash_layer(std::uint64_t hash, const LayerSpec& layer) {
  const ops::Window2d& window = layer.window;
  for (const std::string_view text : {std::string_view(layer.name), to_string(layer.type)}) {
    hash = hash_text(hash, text);
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
  if (!window.is_even() || window.ceil_mode) {
    hash = hash_integers(
        hash, std::array<std::int64_t, 3>{window.more_h, window.more_w, window.ceil_mode ? 1 : 0});
  }
  if (layer.init != Init{}) {
    hash = hash_integers(
        hash, std::array<std::uint64_t, 2>{static_cast<std::uint64_t>(layer.init.kind),
                                           std::bit_cast<std::uint64_t>(layer.init.deviation)});
  }
  if (!layer.trainable) hash = combine_hash(hash, 1);
  if (layer.type == LayerType::dropout) {
    return combine_hash(hash, std::bit_cast<std::uint64_t>(layer.drop_probability));
  }
  if (layer.type != LayerType::batch_norm2d) return hash;
  return hash_integers(hash,
                       std::array<std::uint64_t, 3>{std::bit_cast<std::uint64_t>(layer.eps),
                                                    std::bit_cast<std::uint64_t>(layer.momentum),
                                                    layer.affine ? 1U : 0U});
}

// The sum of `size` over all tensors that the layers' plans have as `tensors`.
template <typename Spec, typename Size>
std::int64_t sum_over(const ModelSpec& model, std::vector<Spec> ops::OpPlan::*tensors,
                      const Size& size, bool frozen_too = true) {
  std::int64_t sum = 0;
  for (const LayerSpec& layer : model.layers) {
    if (!frozen_too && !layer.trainable) continue;
    const ops::OpPlan plan = model.plan_of(layer);
    for (const Spec& spec : plan.*tensors) sum += size(spec.shape);
  }
  return sum;
}

std::int64_t one(const ops::Shape&) { return 1; }

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

struct LayerFlops {
  double forward = 0, backward = 0;
};

std::vector<LayerFlops> flops_of_layers(const ModelSpec& model) {
  std::vector<LayerFlops> all;
  std::vector<bool> trained;  // [layer] its output depends on parameters
  for (const LayerSpec& layer : model.layers) {
    const bool needs_grad_input = std::ranges::any_of(layer.inputs, [&](int input) {
      return input != kNetworkInput && trained[static_cast<std::size_t>(input)];
    });
    const ops::OpPlan plan = model.plan_of(layer);
    trained.push_back(needs_grad_input || (layer.trainable && !plan.parameters.empty()));
    const double flops = has_weights(layer.type) ? plan.forward_flops / kPlannedSamples : 0;
    all.push_back({flops, flops * ((needs_grad_input ? 1 : 0) + (layer.trainable ? 1 : 0))});
  }
  return all;
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

ops::OpDesc operation_of(const LayerSpec& layer, const std::vector<ops::TensorLayout>& inputs) {
  const ops::TensorLayout& input = inputs[0];
  switch (layer.type) {
    case LayerType::conv2d:
      return ops::Conv2dDesc{.input = input,
                             .out_channels = layer.out,
                             .window = layer.window,
                             .dilation = layer.dilation,
                             .groups = layer.groups,
                             .bias = layer.bias};
    case LayerType::relu:
      return ops::ActivationDesc{input};
    case LayerType::relu6:
      return ops::ActivationDesc{input, ops::Activation::relu6};
    case LayerType::tanh:
      return ops::ActivationDesc{input, ops::Activation::tanh};
    case LayerType::sigmoid:
      return ops::ActivationDesc{input, ops::Activation::sigmoid};
    case LayerType::max_pool2d:
      return ops::MaxPool2dDesc{.input = input, .window = layer.window};
    case LayerType::linear:
      return ops::LinearDesc{.input = input, .out_features = layer.out, .bias = layer.bias};
    case LayerType::add:
      return ops::AddDesc{input};
    case LayerType::avg_pool2d:
      return ops::AvgPool2dDesc{input, layer.window, layer.count_include_pad};
    case LayerType::adaptive_avg_pool2d:
      return ops::AdaptiveAvgPool2dDesc{input, layer.out_h, layer.out_w};
    case LayerType::upsample_bilinear:
      return ops::UpsampleBilinearDesc{input, layer.out_h, layer.out_w};
    case LayerType::concat:
      return ops::ConcatDesc{inputs};
    case LayerType::batch_norm2d:
      return ops::BatchNorm2dDesc{
          .input = input, .eps = layer.eps, .momentum = layer.momentum, .affine = layer.affine};
    case LayerType::dropout:
      break;
  }
  return ops::DropoutDesc{.input = input, .p = layer.drop_probability};
}

ops::OpPlan plan_of(const LayerSpec& layer, const std::vector<ops::Shape>& inputs) {
  std::vector<ops::TensorLayout> layouts;
  for (ops::Shape shape : inputs) {
    shape.insert(shape.begin(), kPlannedSamples);
    layouts.push_back(ops::TensorLayout::plain(std::move(shape)));
  }
  return std::visit([](const auto& desc) { return ops::plain_plan(desc); },
                    operation_of(layer, layouts));
}

const ops::Shape& ModelSpec::logits_shape() const {
  return layers[static_cast<std::size_t>(output)].output_shape;
}

std::int64_t ModelSpec::predictions() const {
  return ops::element_count(logits_shape()) / classes();
}

std::int64_t ModelSpec::parameter_count() const {
  return sum_over(*this, &ops::OpPlan::parameters, ops::element_count);
}

std::int64_t ModelSpec::trained_count() const {
  return sum_over(*this, &ops::OpPlan::parameters, ops::element_count, false);
}

std::int64_t ModelSpec::tensor_count() const {
  return sum_over(*this, &ops::OpPlan::parameters, one, false);
}

std::int64_t ModelSpec::state_count() const {
  return sum_over(*this, &ops::OpPlan::state, ops::element_count);
}

std::int64_t ModelSpec::state_tensor_count() const {
  return sum_over(*this, &ops::OpPlan::state, one);
}

std::vector<ops::Shape> ModelSpec::inputs_of(const LayerSpec& layer) const {
  return mapped(layer.inputs, [this](int from) {
    return from == kNetworkInput ? input_shape
                                 : layers[static_cast<std::size_t>(from)].output_shape;
  });
}

std::vector<double> step_flops_of_layers(const ModelSpec& model) {
  return mapped(flops_of_layers(model),
                [](const LayerFlops& layer) { return layer.forward + layer.backward; });
}

ModelCost cost_of(const ModelSpec& model) {
  ModelCost cost{.parameters = model.parameter_count(), .trained = model.trained_count()};
  for (const LayerFlops& layer : flops_of_layers(model)) {
    cost.forward_flops += layer.forward;
    cost.backward_flops += layer.backward;
  }
  for (const LayerSpec& layer : model.layers) {
    if (works_in_place(model, layer)) continue;
    cost.activation_bytes +=
        ops::element_count(layer.output_shape) * static_cast<std::int64_t>(sizeof(float));
  }
  return cost;
}

}  // namespace ddpbench::nn
