// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From layers to planned operations: makes each one with the backend, connects their tensors and
// inserts reorders where the layouts of two neighbours differ.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/nn/model/model.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/nn/plan/plan.h"
#include "kernels/runtime/memory_needs.h"

namespace ddpbench::nn {

class WeightStore;

struct GraphOptions {
  std::int64_t batch = 0;
  std::uint64_t seed = 0;  // of what layers draw at random (dropout)
  // The other parts of the batch, where batch norm couples the samples of all; else null. Outlives
  // the graph.
  ops::BatchParts* parts = nullptr;
  bool training = true;         // false: forward only, no gradient memory
  bool input_gradient = false;  // backward computes that of the input, too; needs micro_batch 0
  std::optional<std::int64_t> micro_batch;  // nullopt: chosen; 0: off; else a divisor of batch
  Sharing gradient_sharing = Sharing::process_private;  // mappable: peers read the gradients
  Sharing weight_sharing = Sharing::process_private;    // mappable: ps and broadcast
  // Null: weights stay in memory. Outlives the graph; place_gradients makes units.
  WeightStore* store = nullptr;
  // Places gradients elsewhere: sets gradient_offsets and gradient_bytes. May be empty. Or makes
  // units, and then places weights, too.
  std::function<void(ParameterPlan&)> place_gradients = {};
  // Called when all is planned and nothing is allocated, with the graph's needs on its device. The
  // caller adds its own needs and throws when the sum is too much. May be empty.
  std::function<void(const ParameterPlan&, MemoryNeeds&)> admit;
};

struct LoweredNetwork {
  Plan plan;  // forward calls; backward and memory are planned after it
  ParameterPlan parameters;
};

// Throws ConfigError or DeviceError, as the backend does.
LoweredNetwork lower_network(const ModelSpec& model, ops::OpBackend& backend,
                             const GraphOptions& options);

}  // namespace ddpbench::nn
