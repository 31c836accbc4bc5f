// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/plan/parameter_plan.h"

#include "base/math.h"
#include "base/random.h"

namespace ddpbench::nn {
namespace {

std::uint64_t hash_text(std::uint64_t hash, const std::string& text) {
  return hash_bytes(text.data(), text.size(), hash);
}

std::uint64_t hash_shape(std::uint64_t hash, const ops::Shape& shape) {
  hash = combine_hash(hash, shape.size());
  for (const std::int64_t extent : shape) {
    hash = combine_hash(hash, static_cast<std::uint64_t>(extent));
  }
  return hash;
}

std::uint64_t hash_of(const ParameterPlan& plan) {
  std::uint64_t hash = combine_hash(plan.parameters.size(), plan.flat_bytes);
  for (const ParameterInfo& parameter : plan.parameters) {
    hash = hash_text(hash, parameter.name);
    hash = hash_shape(hash, parameter.shape);
    hash = hash_text(hash, parameter.layout.tag);
    hash = combine_hash(hash, static_cast<std::uint64_t>(parameter.layout.type));
    hash = combine_hash(hash, parameter.offset_bytes);
    hash = combine_hash(hash, parameter.bytes);
  }
  for (const StateInfo& state : plan.state) {
    hash = hash_shape(hash_text(hash, state.name), state.shape);
    hash = combine_hash(hash, static_cast<std::uint64_t>(state.type));
    hash = combine_hash(hash, state.offset_bytes);
  }
  return hash;
}

}  // namespace

ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers) {
  ParameterPlan plan;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    for (auto spec = layer->specs.rbegin(); spec != layer->specs.rend(); ++spec) {
      plan.parameters.push_back({layer->layer + "." + spec->name, spec->shape, spec->layout,
                                 plan.flat_bytes, spec->layout.bytes, spec->fan_in, spec->start});
      plan.flat_bytes += round_up(spec->layout.bytes, kParameterAlignment);
    }
  }
  for (const LayerParameters& layer : layers) {
    for (const ops::StateSpec& spec : layer.state) {
      const std::size_t bytes = ops::TensorLayout::plain(spec.shape, spec.type).bytes;
      plan.state.push_back({layer.layer + "." + spec.name, spec.shape, spec.type, spec.start,
                            plan.state_bytes, bytes});
      plan.state_bytes += round_up(bytes, kParameterAlignment);
    }
  }
  plan.hash = hash_of(plan);
  return plan;
}

}  // namespace ddpbench::nn
