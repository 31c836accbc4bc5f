// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// With --sync-batch-norm every strategy computes what one device computes of the global batch with
// plain batch norm, running statistics included.
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "kernels/nn/model/model_reader.h"
#include "kernels/ops/op.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

constexpr std::int64_t kSyncedBatch = 24;
constexpr int kSyncedSteps = 3;
constexpr std::uint64_t kSyncedSeed = 7;

// As in strategy_test.cpp: two computations of the same updates that sum in different orders.
double synced_tolerance() {
  const double n = static_cast<double>(kSyncedBatch) * 10 * 9;
  return 32 * kSyncedSteps * std::sqrt(n) * std::ldexp(1.0, -24);
}

StrategyConfig synced_config(const std::string& strategy, int replicas, bool synced = true) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.per_device_batch = kSyncedBatch / replicas;
  config.optimizer = {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = config.unit_bytes = 4096;
  config.sync_batch_norm = synced;
  return config;
}

test::HarnessResult run_synced(const StrategyConfig& config, PhaseObserver* observer = nullptr) {
  return test::run_strategy(test::normalized_model(), config,
                            {.steps = kSyncedSteps, .seed = kSyncedSeed, .observer = observer});
}

struct SyncedCase {
  std::string strategy;
  int replicas;
};
void PrintTo(const SyncedCase& c, std::ostream* out) { *out << c.strategy << " on " << c.replicas; }

class SyncedStrategy : public testing::TestWithParam<SyncedCase> {};

TEST_P(SyncedStrategy, IsOneDeviceWithTheWholeBatch) {
  const auto [strategy, replicas] = GetParam();
  const auto start = test::starting_weights(test::normalized_model(), kSyncedSeed);
  const test::HarnessResult single = run_synced(synced_config("single", 1));
  const test::HarnessResult reference = run_synced(synced_config("reference", replicas));
  const test::HarnessResult result = run_synced(synced_config(strategy, replicas));
  for (std::size_t i = 0; i < result.weights.size(); ++i) {
    EXPECT_LT(test::relative_error(start, result.weights[i], single.weights[0]),
              synced_tolerance());
    EXPECT_LT(test::relative_error(start, result.weights[i], reference.weights[0]),
              synced_tolerance());
    for (std::size_t t = 0; t < single.state[0].size(); ++t) {
      const nn::NamedTensor &want = single.state[0][t], &got = result.state[i][t];
      EXPECT_EQ(got.integers, want.integers) << want.name;
      // All replicas have moved theirs alike.
      EXPECT_EQ(got.values, result.state[0][t].values) << want.name;
      for (std::size_t k = 0; k < want.values.size(); ++k) {
        EXPECT_NEAR(got.values[k], want.values[k], synced_tolerance()) << want.name;
      }
    }
  }
  const test::HarnessResult apart = run_synced(synced_config(strategy, replicas, false));
  EXPECT_GT(test::relative_error(start, apart.weights[0], single.weights[0]),
            100 * synced_tolerance());
}

// One value has no variance, but those of all devices together have one.
TEST_P(SyncedStrategy, TakesOneValueAChannelOnEachDevice) {
  const auto [strategy, replicas] = GetParam();
  const nn::ModelSpec model = nn::parse_model(R"({"name": "dots", "input": [3, 1, 1], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 5, "kernel": 1, "bias": false},
      {"name": "norm", "type": "batch_norm2d"},
      {"name": "fc", "type": "linear", "out_features": 4}]})",
                                              "dots");
  const auto run = [&](StrategyConfig config, std::int64_t batch, int steps = kSyncedSteps) {
    config.per_device_batch = batch;
    return test::run_strategy(model, config, {.steps = steps, .seed = kSyncedSeed});
  };
  const auto start = run(synced_config("single", 1), replicas, 0).weights[0];
  const auto single = run(synced_config("single", 1), replicas);
  const auto result = run(synced_config(strategy, replicas), 1);
  for (const auto& weights : result.weights) {
    EXPECT_LT(test::relative_error(start, weights, single.weights[0]), synced_tolerance());
  }
  EXPECT_THROW(run(synced_config(strategy, replicas, false), 1), ops::BatchTooSmall);
}

INSTANTIATE_TEST_SUITE_P(
    , SyncedStrategy,
    testing::Values(SyncedCase{"dp", 2}, SyncedCase{"dp", 3}, SyncedCase{"ddp", 2},
                    SyncedCase{"ddp", 3}, SyncedCase{"zero1", 2}, SyncedCase{"zero2", 3},
                    SyncedCase{"zero3", 2}, SyncedCase{"ps", 2}, SyncedCase{"ps", 3}),
    [](const auto& chosen) {
      return chosen.param.strategy + "On" + std::to_string(chosen.param.replicas);
    });

class SyncObserver : public PhaseObserver {
 public:
  void begin(Phase phase, Stream&) override {
    if (phase == Phase::forward || phase == Phase::backward) inside = true;
    if (phase != Phase::sync_batch_norm) return;
    EXPECT_TRUE(inside);
    ++syncs;
  }
  void end(Phase phase, Stream&) override {
    if (phase == Phase::forward || phase == Phase::backward) inside = false;
  }
  void bucket(const BucketTimes&) override {}
  int syncs = 0;
  bool inside = false;
};

// Two layers, forward and backward.
TEST(SyncedBatch, IsMarkedWithinThePasses) {
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    SyncObserver observer, none;
    run_synced(synced_config(strategy, 2), &observer);
    EXPECT_EQ(observer.syncs, 4 * kSyncedSteps) << strategy;
    run_synced(synced_config(strategy, 2, false), &none);
    EXPECT_EQ(none.syncs, 0) << strategy;
  }
}

// Nobody wants the gradient of the network's input, and the gradients of weight and bias are those
// of the own part.
TEST(SyncedBatch, ExchangesNothingForAnInputThatNobodyTrains) {
  const nn::ModelSpec model = nn::parse_model(R"({
    "name": "first", "input": [3, 6, 5],
    "layers": [
      {"name": "norm1", "type": "batch_norm2d"},
      {"name": "relu1", "type": "relu"},
      {"name": "conv1", "type": "conv2d", "out_channels": 5, "kernel": 3, "bias": false},
      {"name": "norm2", "type": "batch_norm2d"},
      {"name": "relu2", "type": "relu"},
      {"name": "fc1", "type": "linear", "out_features": 7}]})",
                                              "first model");
  const auto run = [&](const StrategyConfig& config, PhaseObserver* observer) {
    return test::run_strategy(model, config,
                              {.steps = kSyncedSteps, .seed = kSyncedSeed, .observer = observer});
  };
  const auto start = test::starting_weights(model, kSyncedSeed);
  const test::HarnessResult single = run(synced_config("single", 1), nullptr);
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    SyncObserver observer;
    const test::HarnessResult result = run(synced_config(strategy, 2), &observer);
    EXPECT_EQ(observer.syncs, 3 * kSyncedSteps) << strategy;
    EXPECT_LT(test::relative_error(start, result.weights[1], single.weights[0]),
              synced_tolerance());
  }
}

}  // namespace
}  // namespace ddpbench
