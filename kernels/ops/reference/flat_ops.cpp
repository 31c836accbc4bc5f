// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The optimizers and the mean, in double precision (optimizer.h and flat_ops.h have their
// formulas), and the gather of every CPU backend.
#include <algorithm>
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

class PlainMean final : public Mean {
 public:
  void run(Stream&, std::span<const float* const> inputs, float* out, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (const float* input : inputs) sum += input[i];
      out[i] = static_cast<float>(sum / static_cast<double>(inputs.size()));
    }
  }
};

class PlainGather final : public BatchGather {
 public:
  void run(Stream&, const GatherArgs& args) override {
    check_gather(args);
    const std::int32_t* indices =
        args.indices + (args.position != nullptr ? static_cast<std::int64_t>(*args.position) : 0);
    for (std::int64_t n = 0; n < args.batch; ++n) {
      const std::int64_t sample = indices[n];
      gather(args, args.images + sample * args.sample_elements,
             args.out + n * args.sample_elements);
      std::copy_n(args.labels + sample * args.labels_per_sample, args.labels_per_sample,
                  args.labels_out + n * args.labels_per_sample);
    }
  }

 private:
  static void gather(const GatherArgs& args, const std::uint8_t* bytes, float* out) {
    const std::int64_t pixels = args.sample_elements / args.channels;
    for (std::int64_t c = 0; c < args.channels; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      const ByteScale scale = byte_scale(args.mean[channel], args.std[channel]);
      for (std::int64_t i = c * pixels; i < (c + 1) * pixels; ++i) {
        out[i] = static_cast<float>(bytes[i]) * scale.factor + scale.offset;
      }
    }
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer() { return std::make_unique<PlainOptimizer>(); }
std::unique_ptr<Mean> make_mean() { return std::make_unique<PlainMean>(); }
std::unique_ptr<BatchGather> make_batch_gather() { return std::make_unique<PlainGather>(); }

}  // namespace ddpbench::ops::reference
