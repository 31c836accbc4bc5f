// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of one update, computed where the update runs: the same code on hosts and on GPUs.
#pragma once

#include <cmath>

#include "base/random.h"
#include "kernels/ops/optimizer.h"

namespace ddpbench::ops {

// The rate of the update that follows `updates` others.
DDPBENCH_HOST_DEVICE inline double learning_rate(const OptimizerOptions& options,
                                                 std::int64_t updates) {
  constexpr double kPi = 3.14159265358979323846;
  const LrSchedule& schedule = options.schedule;
  if (updates < schedule.warmup_steps) {
    const double share = static_cast<double>(updates) / static_cast<double>(schedule.warmup_steps);
    return options.lr * (schedule.warmup_factor + (1 - schedule.warmup_factor) * share);
  }
  const std::int64_t at = updates - schedule.warmup_steps;
  if (schedule.kind == ScheduleKind::step) {
    const std::int64_t decays = at / schedule.step_size;
    return options.lr * std::pow(schedule.gamma, static_cast<double>(decays));
  }
  if (schedule.kind == ScheduleKind::cosine) {
    const double turn = static_cast<double>(at) / static_cast<double>(schedule.cosine_steps);
    return schedule.least + (options.lr - schedule.least) * (1 + std::cos(kPi * turn)) / 2;
  }
  return options.lr;
}

// Counts one more update, and sets the numbers of it.
DDPBENCH_HOST_DEVICE inline void advance(const OptimizerOptions& options, OptimizerStep& step) {
  const double lr = learning_rate(options, step.updates);
  const auto updates = static_cast<double>(++step.updates);
  step.lr = static_cast<float>(lr);
  const bool decoupled = options.kind == OptimizerKind::adamw;
  step.decay = static_cast<float>(decoupled ? 1 - lr * options.weight_decay : 1);
  step.step_size = static_cast<float>(lr / (1 - std::pow(options.beta1, updates)));
  step.inverse_root = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, updates)));
}

}  // namespace ddpbench::ops
