// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From layers to planned operations: makes each one with the backend, connects their tensors and
// inserts reorders where the layouts of two neighbours differ.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/nn/model/model.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/nn/plan/plan.h"

namespace ddpbench::nn {

struct LoweringOptions {
  std::int64_t batch = 0;
  std::uint64_t seed = 0;                   // of operations that draw at random
  ops::BatchParts* parts = nullptr;         // of the batch, for batch norm
  bool training = true;                     // false: no operation will run backward
  std::optional<std::int64_t> micro_batch;  // nullopt: chosen; 0: off; else a divisor of batch
};

struct LoweredNetwork {
  Plan plan;  // forward calls; backward and memory are planned after it
  ParameterPlan parameters;
};

// Throws ConfigError or DeviceError, as the backend does.
LoweredNetwork lower_network(const ModelSpec& model, ops::OpBackend& backend,
                             const LoweringOptions& options);

}  // namespace ddpbench::nn
