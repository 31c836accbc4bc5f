// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A step of several passes computes what one pass over all their samples computes, on every
// strategy; gradients travel after the last pass, or after each.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::relative_error;
using test::run_strategy;

constexpr int kPasses = 3, kReplicas = 2;
constexpr double kTolerance = 2e-4;  // fp32, sums in another order, over three steps

StrategyConfig accumulating(const std::string& strategy, int replicas, int passes) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.accumulation_steps = passes;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = config.unit_bytes = 4096;
  return config;
}

// The same samples in one pass on one device.
StrategyConfig whole(const StrategyConfig& config) {
  StrategyConfig one = accumulating("single", 1, 1);
  one.per_device_batch = config.per_device_batch * config.replicas * config.accumulation_steps;
  return one;
}

double error_of(const nn::ModelSpec& model, const HarnessResult& result,
                const HarnessResult& expected) {
  const auto start = test::starting_weights(model, 7);
  double worst = 0;
  for (const auto& weights : result.weights) {
    if (weights.empty()) continue;  // the reference has one replica
    worst = std::max(worst, relative_error(start, weights, expected.weights[0]));
  }
  return worst;
}

struct Way {
  const char* name;
  StrategyConfig config;
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

std::vector<Way> ways() {
  std::vector<Way> all = {{"single", accumulating("single", 1, kPasses)},
                          {"reference", accumulating("reference", kReplicas, kPasses)},
                          {"dp", accumulating("dp", kReplicas, kPasses)},
                          {"ddp", accumulating("ddp", kReplicas, kPasses)},
                          {"ddpEvery", accumulating("ddp", kReplicas, kPasses)},
                          {"ddpLate", accumulating("ddp", 3, 2)},
                          {"zero1", accumulating("zero1", 3, kPasses)},
                          {"zero2", accumulating("zero2", 3, kPasses)},
                          {"zero3", accumulating("zero3", 3, kPasses)},
                          {"ps", accumulating("ps", kReplicas, kPasses)},
                          {"psWorker", accumulating("ps", kReplicas, kPasses)},
                          {"localsgd", accumulating("localsgd", kReplicas, kPasses)}};
  all[4].config.sync_every_pass = true;
  all[5].config.overlap = false;
  all[10].config.ps_update = PsUpdate::worker;
  all[11].config.sync_every = 1;  // which makes it exact
  return all;
}

class Accumulation : public testing::TestWithParam<Way> {
 protected:
  const StrategyConfig& config() const { return GetParam().config; }
};
INSTANTIATE_TEST_SUITE_P(, Accumulation, testing::ValuesIn(ways()),
                         [](const auto& way) { return std::string(way.param.name); });

TEST_P(Accumulation, ComputesWhatOnePassOverAllSamplesComputes) {
  for (const nn::ModelSpec& model : {test::small_model(), test::dropping_model()}) {
    const auto result = run_strategy(model, config());
    const auto expected = run_strategy(model, whole(config()));
    EXPECT_LT(error_of(model, result, expected), kTolerance) << model.name;
    EXPECT_EQ(result.counted, expected.counted);
    EXPECT_NEAR(result.loss_sum / expected.loss_sum, 1, 1e-5);
  }
}

// The mean is over the labels of all passes that count: passes have different numbers of them.
TEST_P(Accumulation, WeighsEveryPassByItsLabelsThatCount) {
  for (const nn::ModelSpec& model :
       {test::smoothing_model(), test::auxiliary_model(), test::map_model()}) {
    const auto result = run_strategy(model, config());
    EXPECT_LT(error_of(model, result, run_strategy(model, whole(config()))), kTolerance)
        << model.name;
  }
}

// Batch norm sees one pass of one replica. Its running statistics go on from pass to pass.
TEST_P(Accumulation, TakesBatchNormPassByPassAsTheReferenceDoes) {
  StrategyConfig reference = config();
  reference.strategy = "reference";
  reference.servers = 0;
  reference.sync_every_pass = false;
  const nn::ModelSpec model = test::normalized_model();
  const auto result = run_strategy(model, config(), {.steps = 2});
  const auto expected = run_strategy(model, reference, {.steps = 2});
  EXPECT_LT(error_of(model, result, expected), 10 * kTolerance);
  ASSERT_FALSE(expected.state[0].empty());
  EXPECT_EQ(result.state[0].at(2).integers, expected.state[0].at(2).integers);
  EXPECT_EQ(result.state[0].at(2).integers.at(0), 2 * config().accumulation_steps);
  for (const std::size_t tensor : {0, 1}) {
    const auto& values = result.state[0].at(tensor).values;
    for (std::size_t c = 0; c < values.size(); ++c) {
      EXPECT_NEAR(values[c], expected.state[0].at(tensor).values[c], 1e-4);
    }
  }
}

std::uint64_t bytes_of(const StrategyConfig& config) {
  return run_strategy(test::small_model(), config, {.steps = 4}).taken[0].bytes -
         run_strategy(test::small_model(), config, {.steps = 2}).taken[0].bytes;
}

TEST(AccumulationSync, SendsGradientsOnceAStepOrOnceAPass) {
  StrategyConfig last = accumulating("ddp", kReplicas, kPasses), every = last;
  every.sync_every_pass = true;
  EXPECT_EQ(bytes_of(last), bytes_of(accumulating("ddp", kReplicas, 1)));
  EXPECT_EQ(bytes_of(every), kPasses * bytes_of(last));
}

class BucketNumbers final : public PhaseObserver {
 public:
  void begin(Phase, Stream&) override {}
  void end(Phase, Stream&) override {}
  void bucket(const BucketTimes& times) override {
    ends.push_back(times.end_s);
    numbers.push_back(times.bucket);
  }
  std::vector<double> ends;
  std::vector<std::uint32_t> numbers;
};

TEST(AccumulationSync, TellsTheBucketsOfEachPassThatSends) {
  StrategyConfig config = accumulating("ddp", kReplicas, kPasses);
  BucketNumbers last, every;
  run_strategy(test::small_model(), config, {.steps = 1, .observer = &last});
  config.sync_every_pass = true;
  run_strategy(test::small_model(), config, {.steps = 1, .observer = &every});
  ASSERT_GT(last.numbers.size(), 1u);
  ASSERT_EQ(every.numbers.size(), kPasses * last.numbers.size());
  for (std::size_t i = 0; i < every.numbers.size(); ++i) EXPECT_EQ(every.numbers[i], i);
  EXPECT_TRUE(std::ranges::is_sorted(every.ends));
}

}  // namespace
}  // namespace ddpbench
