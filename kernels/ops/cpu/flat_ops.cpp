// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers and the mean of buffers, each in one pass over memory, whose bandwidth bounds it
// (optimizer.h and backend.h have the bytes). Adam takes a square root and a division an element,
// which vector units do faster than memory delivers. This source is compiled without errno for
// sqrt, else no compiler makes a vector instruction of it.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

struct SgdFactors {
  float lr, momentum, weight_decay, grad_scale;
  // What the weights move by: these times the gradient and the velocity. With Nesterov's momentum
  // the velocity is looked at a step ahead.
  float of_gradient, of_velocity;
};

SgdFactors sgd_factors(const OptimizerArgs& args, const OptimizerStep* step) {
  const OptimizerOptions& o = args.options;
  const auto momentum = static_cast<float>(o.momentum);
  return {step != nullptr ? step->lr : static_cast<float>(o.lr),
          momentum,
          static_cast<float>(o.weight_decay),
          args.grad_scale,
          o.nesterov ? 1.0F : 0.0F,
          o.nesterov ? momentum : 1.0F};
}

struct AdamFactors {
  float beta1, rest1, beta2, rest2, epsilon, weight_decay, grad_scale;
  float decay, step_size, inverse_root;
};

AdamFactors adam_factors(const OptimizerArgs& args, const OptimizerStep& step) {
  const OptimizerOptions& o = args.options;
  const bool decoupled = o.kind == OptimizerKind::adamw;
  return {static_cast<float>(o.beta1),
          static_cast<float>(1 - o.beta1),
          static_cast<float>(o.beta2),
          static_cast<float>(1 - o.beta2),
          static_cast<float>(o.epsilon),
          static_cast<float>(decoupled ? 0 : o.weight_decay),
          args.grad_scale,
          step.decay,
          step.step_size,
          step.inverse_root};
}

void with_momentum(SimdLevel simd, const OptimizerArgs& args, const OptimizerState& state,
                   SgdFactors f, std::int64_t begin, std::int64_t end) {
  float* const w = args.weights;
  float* const v = state.slots[0];
  const float* const g = args.gradients;
  run_simd(simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      const float gradient = g[i] * f.grad_scale + f.weight_decay * w[i];
      v[i] = f.momentum * v[i] + gradient;
      w[i] -= f.lr * (f.of_gradient * gradient + f.of_velocity * v[i]);
    }
  });
}

void plain_sgd(SimdLevel simd, const OptimizerArgs& args, SgdFactors f, std::int64_t begin,
               std::int64_t end) {
  float* const w = args.weights;
  const float* const g = args.gradients;
  run_simd(simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i)
      w[i] -= f.lr * (g[i] * f.grad_scale + f.weight_decay * w[i]);
  });
}

void adam(SimdLevel simd, const OptimizerArgs& args, const OptimizerState& state, AdamFactors f,
          std::int64_t begin, std::int64_t end) {
  float* const w = args.weights;
  float* const m = state.slots[0];
  float* const v = state.slots[1];
  const float* const g = args.gradients;
  run_simd(simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      const float gradient = g[i] * f.grad_scale + f.weight_decay * w[i];
      m[i] = f.beta1 * m[i] + f.rest1 * gradient;
      v[i] = f.beta2 * v[i] + f.rest2 * gradient * gradient;
      w[i] = f.decay * w[i] - f.step_size * m[i] / (std::sqrt(v[i]) * f.inverse_root + f.epsilon);
    }
  });
}

// The mean works in blocks that stay in the L1 cache while the inputs are added one by one.
constexpr std::int64_t kBlock = 2048;  // 8 KiB of sums

void mean_of_block(SimdLevel simd, std::span<const float* const> inputs, float* out,
                   std::int64_t begin, std::int64_t end) {
  float sums[kBlock];
  std::copy(inputs[0] + begin, inputs[0] + end, sums);
  for (const float* input : inputs.subspan(1)) {
    const float* in = input + begin;
    run_simd(simd, [&sums, in, n = end - begin]() DDPBENCH_SIMD_BODY {
      for (std::int64_t i = 0; i < n; ++i) sums[i] += in[i];
    });
  }
  const auto divisor = static_cast<float>(inputs.size());
  run_simd(simd, [&sums, to = out + begin, divisor, n = end - begin]() DDPBENCH_SIMD_BODY {
    for (std::int64_t i = 0; i < n; ++i) to[i] = sums[i] / divisor;
  });
}

}  // namespace

void update(Team team, const OptimizerArgs& args) {
  const OptimizerState state = optimizer_state(args.options, args.state, args.count);
  if (state.step != nullptr) advance(args.options, *state.step);
  const auto in_parts = [&](const auto& body) {
    parallel_elements(team.threads, static_cast<std::int64_t>(args.count), body);
  };
  if (args.options.is_adaptive()) {
    if (state.step == nullptr) return;  // no parameters, and no memory
    const AdamFactors factors = adam_factors(args, *state.step);
    return in_parts([&](std::int64_t begin, std::int64_t end) {
      adam(team.simd, args, state, factors, begin, end);
    });
  }
  const SgdFactors factors = sgd_factors(args, state.step);
  in_parts([&](std::int64_t begin, std::int64_t end) {
    if (factors.momentum == 0) {
      plain_sgd(team.simd, args, factors, begin, end);
    } else {
      with_momentum(team.simd, args, state, factors, begin, end);
    }
  });
}

void mean(Team team, std::span<const float* const> inputs, float* out, std::size_t count) {
  ensure(!inputs.empty(), "the mean of no buffers");
  parallel_elements(team.threads, static_cast<std::int64_t>(count),
                    [&](std::int64_t begin, std::int64_t end) {
                      for (; begin < end; begin += kBlock)
                        mean_of_block(team.simd, inputs, out, begin, std::min(begin + kBlock, end));
                    });
}

}  // namespace ddpbench::ops::cpu
