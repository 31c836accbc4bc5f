// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Places all parameters in one flat buffer, in the order in which backward produces their
// gradients.
#pragma once

#include <string>
#include <vector>

#include "kernels/nn/graph.h"

namespace ddpbench::nn {

// The parameters of one layer, in PyTorch's order (weight before bias).
struct LayerParameters {
  std::string layer;
  std::vector<ops::ParameterSpec> specs;
};

// Parameters start at cache lines, so that vector code and bucket boundaries never share one.
inline constexpr std::size_t kParameterAlignment = 64;

// `layers` first layer first. Parameter i of the plan is the i-th last of PyTorch's parameters().
ParameterPlan plan_parameters(const std::vector<LayerParameters>& layers);

}  // namespace ddpbench::nn
