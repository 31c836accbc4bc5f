// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Offsets, and the hash that ranks compare before they train together.
#include "kernels/nn/plan/parameter_plan.h"

#include "base/hash.h"
#include "base/math.h"

namespace ddpbench::nn {
namespace {

std::uint64_t hash_text(std::uint64_t hash, const std::string& text) {
  return hash_bytes(text.data(), text.size(), hash);
}

std::uint64_t hash_of(const ParameterPlan& plan) {
  std::uint64_t hash = combine_hash(plan.parameters.size(), plan.flat_bytes);
  for (const ParameterInfo& parameter : plan.parameters) {
    hash = hash_text(hash, parameter.name);
    hash = combine_hash(hash, parameter.shape.size());
    for (const std::int64_t extent : parameter.shape) {
      hash = combine_hash(hash, static_cast<std::uint64_t>(extent));
    }
    hash = hash_text(hash, parameter.layout.tag);
    hash = combine_hash(hash, static_cast<std::uint64_t>(parameter.layout.type));
    hash = combine_hash(hash, parameter.offset_bytes);
    hash = combine_hash(hash, parameter.bytes);
  }
  return hash;
}

}  // namespace

ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers) {
  ParameterPlan plan;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    for (auto spec = layer->specs.rbegin(); spec != layer->specs.rend(); ++spec) {
      plan.parameters.push_back({layer->layer + "." + spec->name, spec->shape, spec->layout,
                                 plan.flat_bytes, spec->layout.bytes, spec->fan_in});
      plan.flat_bytes += round_up(spec->layout.bytes, kParameterAlignment);
    }
  }
  plan.hash = hash_of(plan);
  return plan;
}

}  // namespace ddpbench::nn
