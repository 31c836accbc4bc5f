// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// zero3, whatever its units are; and zero1 to zero3 beside ddp.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "base/math.h"
#include "kernels/runtime/cpu_device.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

StrategyConfig trained_by(const char* strategy, int replicas) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  return config;
}

nn::ParameterPlan parameters_of(const nn::ModelSpec& model) {
  const auto device = make_cpu_device({.cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  return nn::Graph(model, *device, *backend, {.batch = 1}).plan();
}

// Also where layers fill a unit just to its cap, and pass it when they are rounded up for all
// ranks.
TEST(ShardedUnits, OfAnySizeLeadToTheWeightsOfDdp) {
  const nn::ModelSpec model = test::small_model();
  const auto expected = test::run_strategy(model, trained_by("ddp", 3), {.steps = 2}).weights[0];
  const nn::ParameterPlan plan = parameters_of(model);
  std::set<std::size_t> caps = {64};
  for (const nn::ParameterInfo& first : plan.parameters) {
    for (const nn::ParameterInfo& last : plan.parameters) {
      if (last.offset_bytes >= first.offset_bytes) {
        caps.insert(last.offset_bytes + last.bytes - first.offset_bytes);
      }
    }
  }
  StrategyConfig config = trained_by("zero3", 3);
  for (const std::size_t cap : caps) {
    config.unit_bytes = cap;
    const auto found = test::run_strategy(model, config, {.steps = 2}).weights;
    for (const std::vector<nn::NamedTensor>& replica : found) {
      ASSERT_EQ(replica.size(), expected.size());
      for (std::size_t t = 0; t < replica.size(); ++t) {
        for (std::size_t i = 0; i < replica[t].values.size(); ++i) {
          ASSERT_NEAR(replica[t].values[i], expected[t].values[i], 1e-5)
              << replica[t].name << ", units of " << config.unit_bytes;
        }
      }
    }
  }
}

// Two ranks add the same two numbers, in whichever order.
TEST(Sharding, HasTheBitsOfDdpOnTwoReplicas) {
  for (const ops::OptimizerOptions& optimizer :
       {ops::OptimizerOptions{.lr = 0.05, .momentum = 0.9},
        ops::OptimizerOptions{.kind = ops::OptimizerKind::adam, .lr = 0.01}}) {
    std::vector<std::vector<nn::NamedTensor>> weights;
    for (const char* name : {"ddp", "zero1", "zero2", "zero3"}) {
      StrategyConfig config = trained_by(name, 2);
      config.optimizer = optimizer;
      config.first_bucket_bytes = 256;
      config.bucket_cap_bytes = config.unit_bytes = 4096;
      weights.push_back(test::run_strategy(test::small_model(), config).weights[1]);
      for (std::size_t t = 0; t < weights[0].size(); ++t) {
        EXPECT_EQ(weights.back()[t].values, weights[0][t].values) << name << weights[0][t].name;
      }
    }
  }
}

// The weights of the only unit stay between forward and backward. Of many all but two come twice.
TEST(ShardedUnits, TakeTheOthersPartsOncePerPassAndTheirGradientsOnce) {
  const nn::ModelSpec model = test::small_model();
  const std::uint64_t bytes = parameters_of(model).flat_bytes;
  const auto taken = [&](std::uint64_t n, std::size_t unit_bytes) {
    StrategyConfig config = trained_by("zero3", static_cast<int>(n));
    config.unit_bytes = unit_bytes;
    const auto count = [&](int steps) {
      std::uint64_t sum = 0;
      for (const auto& one : test::run_strategy(model, config, {.steps = steps}).taken) {
        sum += one.bytes;
      }
      return sum;
    };
    return count(3) - count(2);  // without what setup and end send
  };
  for (const std::uint64_t n : {2, 3}) {
    EXPECT_EQ(taken(n, bytes), 2 * (n - 1) * round_up(bytes, 64 * n)) << n;
    EXPECT_GT(taken(n, 64), 2 * (n - 1) * bytes) << n;
    EXPECT_LT(taken(n, 64), 3 * (n - 1) * bytes) << n;
  }
}

}  // namespace
}  // namespace ddpbench
