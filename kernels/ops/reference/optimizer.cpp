// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reference optimizers, in double precision, as optimizer.h has their formulas.
#include "kernels/ops/optimizer.h"

#include <cmath>

#include "kernels/ops/reference/reference_ops.h"

namespace ddpbench::ops::reference {
namespace {

class PlainOptimizer : public Optimizer {
 public:
  void run(Stream&, const OptimizerArgs& args) override {
    const OptimizerOptions& o = args.options;
    const OptimizerState state = optimizer_state(o, args.state, args.count);
    const double lr = learning_rate(o, state.step != nullptr ? state.step->updates : 0);
    if (state.step != nullptr) advance(o, *state.step);
    const bool decoupled = o.kind == OptimizerKind::adamw;
    for (std::size_t k = 0; k < args.count; ++k) {
      const double gradient = static_cast<double>(args.gradients[k]) * args.grad_scale +
                              (decoupled ? 0 : o.weight_decay * args.weights[k]);
      const double moved =
          o.is_adaptive() ? adapt(o, state, k, gradient) : descend(o, state, k, gradient);
      const double kept = decoupled ? 1 - lr * o.weight_decay : 1;
      args.weights[k] = static_cast<float>(kept * args.weights[k] - lr * moved);
    }
  }

 private:
  static double descend(const OptimizerOptions& o, const OptimizerState& state, std::size_t k,
                        double gradient) {
    if (o.momentum == 0) return gradient;
    const double velocity = o.momentum * state.slots[0][k] + gradient;
    state.slots[0][k] = static_cast<float>(velocity);
    return o.nesterov ? gradient + o.momentum * velocity : velocity;
  }

  static double adapt(const OptimizerOptions& o, const OptimizerState& state, std::size_t k,
                      double gradient) {
    const auto updates = static_cast<double>(state.step->updates);
    const double mean = o.beta1 * state.slots[0][k] + (1 - o.beta1) * gradient;
    const double square = o.beta2 * state.slots[1][k] + (1 - o.beta2) * gradient * gradient;
    state.slots[0][k] = static_cast<float>(mean);
    state.slots[1][k] = static_cast<float>(square);
    const double size = std::sqrt(square / (1 - std::pow(o.beta2, updates)));
    return mean / (1 - std::pow(o.beta1, updates)) / (size + o.epsilon);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer() { return std::make_unique<PlainOptimizer>(); }

}  // namespace ddpbench::ops::reference
