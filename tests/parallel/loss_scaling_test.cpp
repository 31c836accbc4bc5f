// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Loss scaling in every strategy. Scales are powers of two, and these devices compute in fp32, so a
// scaled loss must lead to the same bits; and a step whose gradients overflow on one replica must
// leave no trace on any.
#include <gmock/gmock.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::run_strategy;
using testing::HasSubstr;
using testing::ThrowsMessage;

StrategyConfig small_config(const std::string& strategy, int replicas, int passes = 1) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.accumulation_steps = passes;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.ps_update = PsUpdate::worker;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = config.unit_bytes = 4096;
  return config;
}

StrategyConfig with_adam(StrategyConfig config) {
  config.optimizer = {.kind = ops::OptimizerKind::adam, .lr = 0.01};
  return config;
}

StrategyConfig with_scaled_loss(StrategyConfig config) {
  config.scales_loss = true;
  return config;
}

struct ScaledWay {
  const char* name;
  StrategyConfig config;
};
void PrintTo(const ScaledWay& way, std::ostream* out) { *out << way.name; }

std::vector<ScaledWay> scaled_ways() {
  return {{"single", small_config("single", 1)},
          {"reference", small_config("reference", 2)},
          {"dp", small_config("dp", 2, 2)},
          {"ddp", small_config("ddp", 2)},
          {"ddpPasses", small_config("ddp", 3, 2)},
          {"ddpAdam", with_adam(small_config("ddp", 2))},
          {"ps", small_config("ps", 2)},
          {"zero1", small_config("zero1", 3)},
          {"zero1Adam", with_adam(small_config("zero1", 2, 2))},
          {"zero2", small_config("zero2", 2, 2)},
          {"zero2Adam", with_adam(small_config("zero2", 3))},
          {"zero3", small_config("zero3", 2, 2)},
          {"zero3Adam", with_adam(small_config("zero3", 3))},
          {"localsgd", small_config("localsgd", 2)}};
}

void expect_same_weights(const HarnessResult& result, const HarnessResult& expected) {
  for (std::size_t r = 0; r < expected.weights.size(); ++r) {
    ASSERT_EQ(result.weights[r].size(), expected.weights[r].size());
    for (std::size_t t = 0; t < expected.weights[r].size(); ++t) {
      EXPECT_EQ(result.weights[r][t].values, expected.weights[r][t].values)
          << expected.weights[r][t].name << " of replica " << r;
    }
  }
}

class LossScaling : public testing::TestWithParam<ScaledWay> {};

TEST_P(LossScaling, LeadsToTheSameBits) {
  const StrategyConfig& config = GetParam().config;
  const nn::ModelSpec model = test::small_model();
  expect_same_weights(run_strategy(model, with_scaled_loss(config), {.reset_in_between = true}),
                      run_strategy(model, config, {.reset_in_between = true}));
}

TEST_P(LossScaling, SkipsAStepThatOverflowsOnOneReplicaOnAll) {
  const StrategyConfig& config = GetParam().config;
  if (config.strategy == "localsgd") GTEST_SKIP() << "its replicas skip each by itself";
  const nn::ModelSpec model = test::small_model();
  const auto result = run_strategy(model, with_scaled_loss(config), {.steps = 3, .overflow_in = 0});
  expect_same_weights(result, run_strategy(model, config, {.steps = 2, .first_step = 1}));
  EXPECT_FALSE(
      std::isfinite(run_strategy(model, with_scaled_loss(config), {.steps = 1, .overflow_in = 0})
                        .largest_gradient()));
}

INSTANTIATE_TEST_SUITE_P(Ways, LossScaling, testing::ValuesIn(scaled_ways()),
                         [](const auto& tested) { return tested.param.name; });

// The scaled gradients that a hook casts may overflow before the others.
TEST(LossScalingWithHooks, GoesOnAfterAnOverflow) {
  const nn::ModelSpec model = test::small_model();
  const auto start = test::starting_weights(model, 7);
  StrategyConfig config = with_scaled_loss(small_config("ddp", 2));
  for (const char* hook : {"bf16", "fp16"}) {
    config.comm_hook = hook;
    const auto skipped = run_strategy(model, config, {.steps = 1, .overflow_in = 0});
    EXPECT_EQ(skipped.weights[1][0].values, start[0].values) << hook;
    const auto after = run_strategy(model, config, {.steps = 4, .overflow_in = 0});
    EXPECT_NE(after.weights[1][0].values, start[0].values) << hook;
    for (const nn::NamedTensor& tensor : after.weights[0]) {
      for (const float value : tensor.values) ASSERT_LT(std::abs(value), 2) << hook;
    }
  }
  for (const char* hook : {"int8", "topk:5"}) {
    config.comm_hook = hook;
    EXPECT_THAT([&] { plan_strategy(config); },
                ThrowsMessage<ConfigError>(HasSubstr("use none, bf16 or fp16")));
  }
}

TEST(LossScalingOnServers, IsRefusedWhereTheyUpdate) {
  StrategyConfig config = with_scaled_loss(small_config("ps", 2));
  config.ps_update = PsUpdate::server;
  EXPECT_THAT([&] { plan_strategy(config); },
              ThrowsMessage<ConfigError>(HasSubstr("use --ps-update=worker")));
}

}  // namespace
}  // namespace ddpbench
