// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From layers to planned operations: makes each with the backend, connects their tensors and puts
// reorders where the layouts of two neighbours differ.
#pragma once

#include "kernels/nn/graph.h"
#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

struct LoweredNetwork {
  Plan plan;  // forward steps; backward and memory are planned after it
  ParameterPlan parameters;
};

// Throws ConfigError or DeviceError, as the backend does.
LoweredNetwork lower_network(const ModelSpec& model, ops::OpBackend& backend,
                             const GraphOptions& options);

}  // namespace ddpbench::nn
