// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/plan/parameter_plan.h"

#include "base/math.h"
#include "base/random.h"

namespace ddpbench::nn {
namespace {

std::uint64_t hash_of(const ParameterPlan& plan) {
  std::uint64_t hash = combine_hash(plan.parameters.size(), plan.flat_bytes);
  for (std::size_t i = 0; i < plan.tensor_count(); ++i) {
    const ParameterInfo& parameter = plan.tensor(i);
    hash = hash_text(hash, parameter.name);
    hash = hash_integers(hash, parameter.shape);
    hash = hash_text(hash, parameter.layout.tag);
    hash = combine_hash(hash, static_cast<std::uint64_t>(parameter.layout.type));
    hash = combine_hash(hash, parameter.offset_bytes);
    hash = combine_hash(hash, parameter.bytes);
  }
  for (const StateInfo& state : plan.state) {
    hash = hash_integers(hash_text(hash, state.name), state.shape);
    hash = combine_hash(hash, static_cast<std::uint64_t>(state.type));
    hash = combine_hash(hash, state.offset_bytes);
  }
  return hash;
}

// Places a tensor of a layer at the end of a flat buffer.
template <typename Spec>
void place(const std::string& layer, Spec spec, std::size_t bytes, std::size_t& flat_bytes,
           std::vector<PlacedTensor<Spec>>& placed) {
  spec.name = layer + "." + spec.name;
  placed.push_back({std::move(spec), flat_bytes, bytes});
  flat_bytes += round_up(bytes, kParameterAlignment);
}

}  // namespace

ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers) {
  ParameterPlan plan;
  const auto place_all = [&](bool trainable, std::size_t& bytes, auto& placed) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
      if (layer->trainable != trainable) continue;
      for (auto spec = layer->specs.rbegin(); spec != layer->specs.rend(); ++spec) {
        place(layer->layer, *spec, spec->layout.bytes, bytes, placed);
      }
    }
  };
  place_all(true, plan.flat_bytes, plan.parameters);
  plan.weight_bytes = plan.flat_bytes;
  place_all(false, plan.weight_bytes, plan.frozen);
  for (const LayerParameters& layer : layers) {
    for (const ops::StateSpec& spec : layer.state) {
      place(layer.layer, spec, ops::TensorLayout::plain(spec.shape, spec.type).bytes,
            plan.state_bytes, plan.state);
    }
  }
  plan.hash = hash_of(plan);
  return plan;
}

}  // namespace ddpbench::nn
