// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of one update, computed where the update runs: the same code on hosts and on GPUs.
#pragma once

#include <cmath>

#include "kernels/ops/optimizer.h"

#ifdef __CUDACC__
#define DDPBENCH_ON_ANY_DEVICE __host__ __device__
#else
#define DDPBENCH_ON_ANY_DEVICE
#endif

namespace ddpbench::ops {

// Counts one more update, and sets the numbers of it.
DDPBENCH_ON_ANY_DEVICE inline void advance(const OptimizerOptions& options, OptimizerStep& step) {
  const auto updates = static_cast<double>(++step.updates);
  const double lr = options.lr;
  step.lr = static_cast<float>(lr);
  const bool decoupled = options.kind == OptimizerKind::adamw;
  step.decay = static_cast<float>(decoupled ? 1 - lr * options.weight_decay : 1);
  step.step_size = static_cast<float>(lr / (1 - std::pow(options.beta1, updates)));
  step.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, updates)));
}

}  // namespace ddpbench::ops
