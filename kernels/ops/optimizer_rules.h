// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules of optimizer.h for one element in fp32, by the same code on hosts and on GPUs.
#pragma once

#include <cmath>

#include "kernels/ops/optimizer.h"

namespace ddpbench::ops {

// What an update needs of the options, and what changes from update to update.
struct UpdateFactors {
  float grad_scale, weight_decay;
  // What the weights of sgd move by: these times the gradient and the velocity. With Nesterov's
  // momentum the velocity is looked at a step ahead.
  float momentum, of_gradient, of_velocity;
  float beta1, rest1, beta2, rest2, epsilon;
  OptimizerStep now;

  // `now` has the rate of the options: an update that is counted sets its own.
  explicit UpdateFactors(const OptimizerArgs& args) {
    const OptimizerOptions& o = args.options;
    const auto narrow = [](double value) { return static_cast<float>(value); };
    grad_scale = args.grad_scale;
    weight_decay = o.kind == OptimizerKind::adamw ? 0 : narrow(o.weight_decay);
    momentum = narrow(o.momentum);
    of_gradient = o.nesterov ? 1 : 0;
    of_velocity = o.nesterov ? momentum : 1;
    beta1 = narrow(o.beta1), rest1 = narrow(1 - o.beta1);
    beta2 = narrow(o.beta2), rest2 = narrow(1 - o.beta2);
    epsilon = narrow(o.epsilon);
    now.lr = narrow(o.lr);
  }
  DDPBENCH_HOST_DEVICE float gradient(float weight, float raw) const {
    return raw * grad_scale + weight_decay * weight;
  }
};

// A rule moves a weight and the first kSlots of its slots.
struct PlainSgd {
  static constexpr int kSlots = 0;
  DDPBENCH_HOST_DEVICE static void update(const UpdateFactors& f, float& weight, float&, float&,
                                          float raw) {
    weight -= f.now.lr * f.gradient(weight, raw);
  }
};

struct MomentumSgd {
  static constexpr int kSlots = 1;
  DDPBENCH_HOST_DEVICE static void update(const UpdateFactors& f, float& weight, float& velocity,
                                          float&, float raw) {
    const float gradient = f.gradient(weight, raw);
    velocity = f.momentum * velocity + gradient;
    weight -= f.now.lr * (f.of_gradient * gradient + f.of_velocity * velocity);
  }
};

struct Adam {
  static constexpr int kSlots = 2;
  DDPBENCH_HOST_DEVICE static void update(const UpdateFactors& f, float& weight, float& mean,
                                          float& square, float raw) {
    const float gradient = f.gradient(weight, raw);
    mean = f.beta1 * mean + f.rest1 * gradient;
    square = f.beta2 * square + f.rest2 * gradient * gradient;
    const float size = sqrtf(square) * f.now.inverse_root + f.epsilon;
    weight = f.now.decay * weight - f.now.step_size * mean / size;
  }
};

// Calls use(rule) for the rule of the options.
template <typename Use>
auto with_rule(const OptimizerOptions& options, const Use& use) {
  if (options.is_adaptive()) return use(Adam{});
  return options.momentum == 0 ? use(PlainSgd{}) : use(MomentumSgd{});
}

}  // namespace ddpbench::ops
