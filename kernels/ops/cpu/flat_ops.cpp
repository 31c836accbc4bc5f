// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers and the mean of buffers, each in one pass over memory, whose bandwidth bounds it
// (optimizer.h and backend.h have the bytes). Adam takes a square root and a division an element,
// which vector units do faster than memory delivers. This source is compiled without errno for
// sqrt, else no compiler makes a vector instruction of it.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/optimizer_rules.h"

namespace ddpbench::ops::cpu {
namespace {

template <typename Rule>
void update_part(SimdLevel simd, const OptimizerArgs& args, const OptimizerState& state,
                 const UpdateFactors& factors, std::int64_t begin, std::int64_t end) {
  float *const w = args.weights, *const first = state.slots[0], *const second = state.slots[1];
  const float* const g = args.gradients;
  run_simd(simd, [=]() DDPBENCH_SIMD_BODY {
#pragma GCC ivdep
    for (std::int64_t i = begin; i < end; ++i) {
      float slots[kMostSlots] = {};
      if constexpr (Rule::kSlots > 0) slots[0] = first[i];
      if constexpr (Rule::kSlots > 1) slots[1] = second[i];
      Rule::update(factors, w[i], slots[0], slots[1], g[i]);
      if constexpr (Rule::kSlots > 0) first[i] = slots[0];
      if constexpr (Rule::kSlots > 1) second[i] = slots[1];
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
  const OptimizerState state = state_of(args);
  const LossScale* const scale = args.loss_scale;
  if (args.count == 0 || (scale != nullptr && scale->overflow != 0)) return;
  UpdateFactors factors(args);
  if (scale != nullptr) factors.grad_scale /= scale->scale;
  if (state.step != nullptr) {
    if (args.state_first == 0) advance(args.options, *state.step);
    factors.now = *state.step;
  }
  with_rule(args.options, [&](auto rule) {
    parallel_elements(team.threads, static_cast<std::int64_t>(args.count),
                      [&](std::int64_t begin, std::int64_t end) {
                        update_part<decltype(rule)>(team.simd, args, state, factors, begin, end);
                      });
  });
}

// A difference of a number and itself is 0, or NaN where it is not finite.
void find_overflow(Team team, const float* gradients, std::int64_t count, LossScale* scale) {
  parallel_elements(team.threads, count, [&](std::int64_t begin, std::int64_t end) {
    float found = 0;
    run_simd(team.simd, [&]() DDPBENCH_SIMD_BODY {
      float sum = 0;
      for (std::int64_t i = begin; i < end; ++i)
        sum += is_finite_number(gradients[i]) ? 0.0F : 1.0F;
      found = sum;
    });
    if (found != 0) std::atomic_ref(scale->overflow).store(1);
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
