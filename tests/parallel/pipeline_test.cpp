// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Layers that are split over ranks compute what one device computes of the same passes, in both
// orders of forward and backward, and with several replicas of the pipeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline_stage.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessResult;
using test::joined;
using test::relative_error;
using test::run_strategy;

constexpr double kPipelineTolerance = 2e-4;  // fp32, other fusions, over three steps

struct Shape {
  int stages, passes, replicas;
  bool one_forward_one_backward;
};
void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.stages << " stages, " << shape.passes << " passes, " << shape.replicas
       << " replicas, " << (shape.one_forward_one_backward ? "1f1b" : "gpipe");
}

StrategyConfig pipeline(const Shape& shape) {
  StrategyConfig config;
  config.strategy = "pipeline";
  config.stages = shape.stages;
  config.replicas = shape.replicas;
  config.accumulation_steps = shape.passes;
  config.one_forward_one_backward = shape.one_forward_one_backward;
  config.per_device_batch = 4;
  config.optimizer = {.lr = 0.05, .momentum = 0.9};
  config.first_bucket_bytes = 256;
  config.bucket_cap_bytes = 4096;
  return config;
}

StrategyConfig one_device(const StrategyConfig& config) {
  StrategyConfig reference = config;
  reference.strategy = "reference";
  reference.stages = 1;
  return reference;
}

// The worst replica's error against one device.
double pipeline_error(const nn::ModelSpec& model, const StrategyConfig& config,
                      const HarnessResult& result, const HarnessResult& expected) {
  const auto start = test::starting_weights(model, 7);
  double worst = 0;
  for (int replica = 0; replica < config.replicas; ++replica) {
    const auto weights = joined(result.weights, replica * config.stages, config.stages);
    EXPECT_EQ(weights.size(), start.size());
    worst = std::max(worst, relative_error(start, weights, expected.weights[0]));
  }
  return worst;
}

class Pipeline : public testing::TestWithParam<Shape> {
 protected:
  // Compares a run with one device, and returns both.
  std::pair<HarnessResult, HarnessResult> compare(const nn::ModelSpec& model, double tolerance) {
    const StrategyConfig config = pipeline(GetParam());
    auto result = run_strategy(model, config);
    auto expected = run_strategy(model, one_device(config));
    EXPECT_LT(pipeline_error(model, config, result, expected), tolerance) << model.name;
    EXPECT_EQ(result.counted, expected.counted);
    EXPECT_NEAR(result.loss_sum / expected.loss_sum, 1, 1e-5);
    return {std::move(result), std::move(expected)};
  }
};
INSTANTIATE_TEST_SUITE_P(, Pipeline,
                         testing::Values(Shape{2, 1, 1, true}, Shape{2, 2, 1, true},
                                         Shape{2, 4, 1, false}, Shape{2, 8, 1, true},
                                         Shape{3, 1, 1, false}, Shape{3, 3, 1, true},
                                         Shape{3, 5, 1, false}, Shape{2, 4, 2, true},
                                         Shape{2, 3, 2, false}, Shape{1, 4, 1, true},
                                         Shape{1, 2, 2, true}));

TEST_P(Pipeline, ComputesWhatOneDeviceComputes) {
  compare(test::small_model(), kPipelineTolerance);
  compare(test::dropping_model(), kPipelineTolerance);
  compare(test::smoothing_model(), kPipelineTolerance);
}

TEST_P(Pipeline, MovesRunningStatisticsOnceAPass) {
  const auto [result, expected] = compare(test::normalized_model(), 10 * kPipelineTolerance);
  const auto state = joined(result.state, 0, GetParam().stages);
  ASSERT_EQ(state.size(), expected.state[0].size());
  for (std::size_t t = 0; t < state.size(); ++t) {
    EXPECT_EQ(state[t].integers, expected.state[0][t].integers);
    for (std::size_t c = 0; c < state[t].values.size(); ++c) {
      EXPECT_NEAR(state[t].values[c], expected.state[0][t].values[c], 1e-4);
    }
  }
}

TEST(PipelineStages, MayBeFour) {
  const StrategyConfig config = pipeline({4, 6, 1, true});
  const nn::ModelSpec model = test::small_model();
  EXPECT_LT(pipeline_error(model, config, run_strategy(model, config),
                           run_strategy(model, one_device(config))),
            kPipelineTolerance);
}

// All outputs are in the last part: the cut is before the auxiliary one.
TEST(PipelineStages, TrainAuxiliaryOutputs) {
  const StrategyConfig config = pipeline({2, 3, 1, true});
  const nn::ModelSpec model = test::auxiliary_model();
  EXPECT_LT(pipeline_error(model, config, run_strategy(model, config),
                           run_strategy(model, one_device(config))),
            kPipelineTolerance);
}

TEST(PipelineStages, TakeTasksInTheOrderOfTheirSchedule) {
  const auto words = [](const Shape& shape, int stage) {
    std::string text;
    for (const StageTask& task : plan_tasks(pipeline(shape), stage)) {
      text += (task.is_forward ? "F" : "B") + std::to_string(task.pass);
    }
    return text;
  };
  const Shape gpipe{3, 4, 1, false}, interleaved{3, 4, 1, true};
  EXPECT_EQ(words(gpipe, 0), "F0F1F2F3B0B1B2B3");
  EXPECT_EQ(words(gpipe, 2), "F0B0F1B1F2B2F3B3");
  EXPECT_EQ(words(interleaved, 0), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(words(interleaved, 1), "F0F1B0F2B1F3B2B3");
  EXPECT_EQ(words({3, 1, 1, true}, 0), "F0B0");
}

TEST(PipelineStages, KeepFewerPassesWhereForwardAndBackwardAlternate) {
  const StrategyConfig gpipe = pipeline({2, 8, 1, false}), interleaved = pipeline({2, 8, 1, true});
  EXPECT_EQ(passes_in_flight(gpipe, 0), 8);
  EXPECT_EQ(passes_in_flight(interleaved, 0), 2);
  const nn::ModelSpec model = test::small_model();
  const auto most = run_strategy(model, gpipe, {.steps = 1});
  const auto fewer = run_strategy(model, interleaved, {.steps = 1});
  EXPECT_LT(fewer.peak_bytes[0], most.peak_bytes[0]);
}

TEST(PipelineFaults, ChangeTheResult) {
  const nn::ModelSpec model = test::small_model();
  const StrategyConfig right = pipeline({2, 2, 2, true});
  const auto expected = run_strategy(model, one_device(right));
  StrategyConfig sum = right, stale = right, missing = right;
  sum.faults.sum_for_average = true;
  stale.faults.stale_replica = 1;
  missing.faults.missing_bucket = 0;
  for (const StrategyConfig& wrong : {sum, stale, missing}) {
    EXPECT_GT(pipeline_error(model, wrong, run_strategy(model, wrong), expected), 1e-2);
  }
}

// Saved by one strategy, resumed by another.
TEST(PipelineState, IsThatOfAnyStrategy) {
  const nn::ModelSpec model = test::normalized_model();
  StrategyConfig split = pipeline({2, 2, 2, true}), whole = split;
  split.broadcast_buffers = whole.broadcast_buffers = true;
  whole.strategy = "ddp";
  whole.stages = 1;
  for (const auto& [first, second] : {std::pair(split, whole), std::pair(whole, split)}) {
    std::map<int, std::vector<nn::NamedTensor>> saves = {{2, {}}, {4, {}}}, resumed = {{4, {}}};
    run_strategy(model, first, {.steps = 4, .saves = &saves});
    run_strategy(model, second,
                 {.steps = 4, .resumed_at = 2, .resumed = &saves.at(2), .saves = &resumed});
    ASSERT_EQ(saves.at(4).size(), resumed.at(4).size());
    for (std::size_t t = 0; t < saves.at(4).size(); ++t) {
      const nn::NamedTensor &expected = saves.at(4)[t], &found = resumed.at(4)[t];
      EXPECT_EQ(found.name, expected.name);
      EXPECT_EQ(found.integers, expected.integers);
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        ASSERT_NEAR(found.values[i], expected.values[i], 2e-3) << found.name;
      }
    }
  }
}

}  // namespace
}  // namespace ddpbench
