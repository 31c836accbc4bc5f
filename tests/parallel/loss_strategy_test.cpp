// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a loss ignores labels, every strategy computes the mean over those of the global batch that
// count, however they are dealt out over the devices.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessOptions;
using test::HarnessResult;
using test::run_strategy;

constexpr std::int64_t kSamples = 24;

// As in strategy_test.cpp: K updates whose gradients are sums of n products.
double loss_tolerance(const HarnessOptions& options) {
  const double n = static_cast<double>(kSamples) * 10 * 9;
  return 32 * options.steps * std::sqrt(n) * std::ldexp(1.0, -24);
}

StrategyConfig loss_config(const std::string& strategy, int replicas) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.per_device_batch = kSamples / replicas;
  config.optimizer = {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  config.first_bucket_bytes = 64;
  config.bucket_cap_bytes = config.unit_bytes = 1024;
  return config;
}

class LossOfStrategy : public testing::TestWithParam<const char*> {
 protected:
  void expect_as_one_device(const nn::ModelSpec& model, const HarnessOptions& options) {
    const auto start = test::starting_weights(model, options.seed);
    const HarnessResult single = run_strategy(model, loss_config("single", 1), options);
    const auto labels = static_cast<std::uint64_t>(options.steps * kSamples * model.predictions());
    EXPECT_LT(single.counted, labels * 3 / 4);
    EXPECT_GT(single.counted, labels / 4);
    for (const int replicas : {2, 3}) {
      const HarnessResult result = run_strategy(model, loss_config(GetParam(), replicas), options);
      EXPECT_EQ(result.counted, single.counted);
      EXPECT_NEAR(result.loss_sum, single.loss_sum, single.loss_sum * loss_tolerance(options));
      for (const auto& weights : result.weights) {
        if (weights.empty()) continue;  // the reference is one replica
        EXPECT_LT(test::relative_error(start, weights, single.weights[0]), loss_tolerance(options))
            << replicas << " replicas";
      }
    }
  }
};

TEST_P(LossOfStrategy, SmoothedAndWithIgnoredLabelsIsThatOfOneDevice) {
  expect_as_one_device(test::smoothing_model(), {.steps = 4});
}

TEST_P(LossOfStrategy, WithAnAuxiliaryOutputIsThatOfOneDevice) {
  expect_as_one_device(test::auxiliary_model(), {.steps = 4});
}

// The total has a part of the second head.
TEST_P(LossOfStrategy, CountsTheAuxiliaryLoss) {
  nn::ModelSpec model = test::auxiliary_model();
  const double total = run_strategy(model, loss_config(GetParam(), 2), {.steps = 1}).loss_sum;
  model.auxiliary[0].weight = 0.8;
  const HarnessResult more = run_strategy(model, loss_config(GetParam(), 2), {.steps = 1});
  // Guessing one of 7 classes, more or less: ln(7) a label that counts.
  EXPECT_NEAR(more.loss_sum - total, 0.4 * 1.95 * static_cast<double>(more.counted),
              0.2 * static_cast<double>(more.counted));
}

TEST_P(LossOfStrategy, OfMapsIsThatOfOneDevice) {
  expect_as_one_device(test::map_model(), {.steps = 4});
}

// Only weight decay and momentum move the weights in the step without labels.
TEST_P(LossOfStrategy, TakesAStepWithoutALabelThatCounts) {
  expect_as_one_device(test::map_model(), {.steps = 3, .all_ignored_in = 1});
  for (const auto& tensors : run_strategy(test::map_model(), loss_config(GetParam(), 2),
                                          {.steps = 1, .all_ignored_in = 0})
                                 .weights) {
    const auto start = test::starting_weights(test::map_model(), HarnessOptions{}.seed);
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::size_t i = 0; i < tensors[t].values.size(); ++i) {
        const float was = start[t].values[i];
        EXPECT_NEAR(tensors[t].values[i], was - 0.05 * 0.01 * was, 1e-7);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossOfStrategy,
                         testing::Values("reference", "dp", "ddp", "zero1", "zero2", "zero3", "ps"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           return std::string(tested.param);
                         });

}  // namespace
}  // namespace ddpbench
