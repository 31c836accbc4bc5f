// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Local SGD: replicas train by themselves, and the mean of their weights, or an outer update by it,
// ends each cycle.
#include <gtest/gtest.h>

#include <vector>

#include "base/math.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::relative_error;
using test::run_strategy;

StrategyConfig local_sgd(int sync_every, int replicas = 3) {
  StrategyConfig config;
  config.strategy = "localsgd";
  config.replicas = replicas;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = 4096;
  config.sync_every = sync_every;
  return config;
}

// Replicas that never meet: their only bucket is missing.
HarnessResult run_apart(const StrategyConfig& config, int steps) {
  StrategyConfig apart = config;
  apart.first_bucket_bytes = apart.bucket_cap_bytes = kMiB;
  apart.faults.missing_bucket = 0;
  apart.outer_lr = 1;
  apart.outer_momentum = 0;
  return run_strategy(test::small_model(), apart, {.steps = steps});
}

using Weights = std::vector<nn::NamedTensor>;

// start + factor * (mean of the replicas - start)
Weights moved(const Weights& start, const std::vector<Weights>& replicas, double factor) {
  Weights result = start;
  for (std::size_t t = 0; t < start.size(); ++t) {
    for (std::size_t i = 0; i < start[t].values.size(); ++i) {
      double sum = 0;
      for (const Weights& one : replicas) sum += one[t].values[i] - start[t].values[i];
      result[t].values[i] +=
          static_cast<float>(factor * sum / static_cast<double>(replicas.size()));
    }
  }
  return result;
}

void expect_all(const HarnessResult& result, const Weights& expected, double tolerance) {
  const Weights start = test::starting_weights(test::small_model(), 7);
  for (const Weights& weights : result.weights) {
    EXPECT_LT(relative_error(start, weights, expected), tolerance);
    for (std::size_t t = 0; t < weights.size(); ++t)
      EXPECT_EQ(weights[t].values, result.weights[0][t].values) << weights[t].name;
  }
}

// The mean of weights after one step from equal ones is that of the updates, momentum included.
TEST(LocalSgd, ThatSynchronisesEveryStepIsDdp) {
  StrategyConfig ddp = local_sgd(1);
  ddp.strategy = "ddp";
  for (const bool nesterov : {false, true}) {
    StrategyConfig local = local_sgd(1);
    local.optimizer.nesterov = ddp.optimizer.nesterov = nesterov;
    const HarnessResult expected = run_strategy(test::small_model(), ddp, {.steps = 4});
    const HarnessResult result = run_strategy(test::small_model(), local, {.steps = 4});
    expect_all(result, expected.weights[0], 2e-5);
    // What verification compares with the reference's.
    for (std::size_t t = 0; t < expected.gradients[0].size(); ++t)
      for (std::size_t i = 0; i < expected.gradients[0][t].values.size(); ++i)
        EXPECT_NEAR(result.gradients[2][t].values[i], expected.gradients[2][t].values[i], 1e-5);
  }
}

TEST(LocalSgd, TakesTheMeanOfWhatReplicasReachByThemselves) {
  const StrategyConfig config = local_sgd(3);
  const Weights start = test::starting_weights(test::small_model(), 7);
  const HarnessResult apart = run_apart(config, 3);
  EXPECT_GT(relative_error(start, apart.weights[0], apart.weights[1]), 0.01);
  expect_all(run_strategy(test::small_model(), config, {.steps = 3}),
             moved(start, apart.weights, 1), 2e-5);
}

// Publishing, as before an evaluation, ends a cycle that is not whole.
TEST(LocalSgd, EndsACycleEarlyWhereItsWeightsArePublished) {
  StrategyConfig config = local_sgd(8);
  const HarnessResult apart = run_apart(config, 2);
  const Weights start = test::starting_weights(test::small_model(), 7);
  expect_all(run_strategy(test::small_model(), config, {.steps = 2}),
             moved(start, apart.weights, 1), 2e-5);
}

// The first outer update with Nesterov's momentum m goes (1 + m) times the mean.
TEST(LocalSgd, UpdatesTheAnchorByAnOuterOptimizer) {
  StrategyConfig config = local_sgd(2);
  config.outer_lr = 0.5;
  config.outer_momentum = 0.9;
  const HarnessResult apart = run_apart(config, 2);
  const Weights start = test::starting_weights(test::small_model(), 7);
  const Weights expected = moved(start, apart.weights, 0.5 * 1.9);
  expect_all(run_strategy(test::small_model(), config, {.steps = 2}), expected, 5e-5);
  // A reset forgets anchor and velocity.
  expect_all(run_strategy(test::small_model(), config, {.steps = 2, .reset_in_between = true}),
             expected, 5e-5);
}

// Two outer updates without momentum at rate 1 are two means.
TEST(LocalSgd, GoesOnFromTheAnchor) {
  StrategyConfig plain = local_sgd(2), outer = local_sgd(2);
  outer.outer_lr = 1.0000001;
  const HarnessResult expected = run_strategy(test::small_model(), plain, {.steps = 4});
  const HarnessResult result = run_strategy(test::small_model(), outer, {.steps = 4});
  expect_all(result, expected.weights[0], 1e-4);
  EXPECT_GT(result.peak_bytes[0], expected.peak_bytes[0]);  // the anchor
}

TEST(LocalSgd, SendsWeightsOnceACycle) {
  const auto bytes = [](const StrategyConfig& config) {
    return run_strategy(test::small_model(), config, {.steps = 8}).taken[0].bytes -
           run_strategy(test::small_model(), config, {.steps = 4}).taken[0].bytes;
  };
  EXPECT_EQ(bytes(local_sgd(1)), 4 * bytes(local_sgd(4)));
  EXPECT_GT(bytes(local_sgd(4)), 0u);
}

TEST(LocalSgd, IsExactOnlyWhereItIsDdp) {
  StrategyConfig config = local_sgd(1);
  EXPECT_EQ(outcome_of(config), Outcome::exact);
  config.optimizer.kind = ops::OptimizerKind::adam;
  EXPECT_EQ(outcome_of(config), Outcome::approximate);
  EXPECT_EQ(outcome_of(local_sgd(2)), Outcome::approximate);
  EXPECT_EQ(outcome_of(local_sgd(2, 1)), Outcome::exact);  // it has nobody to average with
  config = local_sgd(1);
  config.outer_momentum = 0.5;
  EXPECT_EQ(outcome_of(config), Outcome::approximate);
}

}  // namespace
}  // namespace ddpbench
