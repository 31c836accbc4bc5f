// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers over a flat buffer of parameters: the update of all of them in one pass over memory.
// With g' = gradient * grad_scale, as PyTorch's classes of the same names (amsgrad and maximize
// off, dampening 0), for update t = 1, 2, ...:
//
//   sgd     g = g' + weight_decay w;  v = momentum v + g;  w -= lr v
//           nesterov: w -= lr (g + momentum v)
//   adam    g = g' + weight_decay w;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//           w -= lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
//           (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015)
//   adamw   w -= lr weight_decay w, then as adam without weight decay
//           (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019)
//
// An update reads weights and gradients, writes weights, and reads and writes each slot: 20 bytes
// an element for sgd (12 without momentum), 28 for adam and adamw.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/math.h"
#include "kernels/ops/loss_scale.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

enum class OptimizerKind : std::uint8_t { sgd, adam, adamw };
// The words of --optimizer, by OptimizerKind.
inline constexpr auto kOptimizerNames = std::to_array<std::string_view>({"sgd", "adam", "adamw"});
constexpr std::string_view to_string(OptimizerKind kind) {
  return kOptimizerNames[static_cast<std::size_t>(kind)];
}
// Throws InternalError for a word that is none of them.
OptimizerKind optimizer_kind(std::string_view name);

// How the learning rate changes with the updates (learning_rate()), as
// PyTorch's StepLR and CosineAnnealingLR, behind LinearLR where it warms up.
enum class ScheduleKind : std::uint8_t { constant, step, cosine };
// The words of --lr-schedule, by ScheduleKind.
inline constexpr auto kScheduleNames =
    std::to_array<std::string_view>({"constant", "step", "cosine"});
constexpr std::string_view to_string(ScheduleKind kind) {
  return kScheduleNames[static_cast<std::size_t>(kind)];
}
// Throws InternalError for a word that is none of them.
ScheduleKind schedule_kind(std::string_view name);

struct LrSchedule {
  ScheduleKind kind = ScheduleKind::constant;
  std::int64_t step_size = 1;  // step: every so many updates the rate is multiplied ...
  double gamma = 0.1;          // ... by this
  std::int64_t cosine_steps =
      1;             // cosine: half a period, in updates, in which the rate goes down ...
  double least = 0;  // ... to this
  // Updates over which the rate first grows from warmup_factor of itself; then the schedule begins.
  std::int64_t warmup_steps = 0;
  double warmup_factor = 0.01;

  bool is_constant() const { return kind == ScheduleKind::constant && warmup_steps == 0; }
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::sgd;
  double lr = 0.01;
  double momentum = 0.9;  // sgd, as the next
  bool nesterov = false;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam and adamw
  double weight_decay = 0;
  LrSchedule schedule;

  bool is_adaptive() const { return kind != OptimizerKind::sgd; }
  // Whether an update depends on how many came before it (OptimizerStep).
  bool counts_updates() const { return is_adaptive() || !schedule.is_constant(); }
};

// The most tensors of the size of the parameters that an optimizer keeps.
inline constexpr std::size_t kMostSlots = 2;
// How many it keeps: the velocity; both moments of the gradient.
std::size_t slot_count(const OptimizerOptions& options);

// What changes from update to update. It lies in device memory, where recorded work reads it anew:
// each update first advances it.
struct OptimizerStep {
  std::int64_t updates = 0;  // so far, the one that runs included
  // The coefficients of the update that runs:
  float lr = 0;
  float decay = 0;         // what adamw multiplies weights by first; adam: 1
  float step_size = 0;     // lr / (1 - beta1^t)
  float inverse_root = 0;  // 1 / sqrt(1 - beta2^t)
};

// The parts of an optimizer's state for `count` parameters, which is one piece of memory: the
// slots, each at a multiple of 64 bytes, and behind them the step where updates are counted. All of
// it is zero before the first update.
struct OptimizerState {
  std::array<float*, kMostSlots> slots{};  // null: it has no such slot
  OptimizerStep* step = nullptr;           // null: updates are not counted
};
std::size_t optimizer_state_bytes(const OptimizerOptions& options, std::size_t count);
// `state` may be null where it has no bytes. Throws InternalError where it has some.
OptimizerState optimizer_state(const OptimizerOptions& options, void* state, std::size_t count);

struct OptimizerArgs {
  float* weights = nullptr;
  const float* gradients = nullptr;
  void* state = nullptr;  // of no other optimizer: optimizer_state_bytes(options, state_count)
  std::size_t count = 0;  // elements, padding included
  // Parameters that lie apart may share a state of so many elements (0: count); those of this call
  // begin at state_first. The call that begins at 0 comes first, and counts the update for all.
  std::size_t state_count = 0, state_first = 0;
  float grad_scale = 1;
  // In device memory. The gradients are divided by its scale; where it says that they overflowed,
  // the call changes nothing. Null: they are as they are.
  const LossScale* loss_scale = nullptr;
  OptimizerOptions options;
};

// The state of the elements of a call.
OptimizerState state_of(const OptimizerArgs& args);

// ---- the numbers of one update, by the same code on hosts and on GPUs ----

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
