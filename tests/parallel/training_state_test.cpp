// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Training that is saved and goes on, with every strategy, and from one strategy to another.
#include "parallel/training_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using Tensors = std::vector<nn::NamedTensor>;

constexpr int kSavedStep = 4, kResumedSteps = 8;

struct ResumedCase {
  const char* name;
  StrategyConfig config;
  nn::ModelSpec (*model)() = test::normalized_model;
};

ops::OptimizerOptions plain_sgd() { return {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}; }
ops::OptimizerOptions warm_adamw() {
  return {.kind = ops::OptimizerKind::adamw,
          .lr = 0.01,
          .schedule = {.kind = ops::ScheduleKind::cosine, .cosine_steps = 6, .warmup_steps = 2}};
}

// A global batch of 12.
StrategyConfig resumed_config(
    const char* strategy, int replicas, const ops::OptimizerOptions& optimizer,
    void (*change)(StrategyConfig&) = [](StrategyConfig&) {}) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.optimizer = optimizer;
  config.first_bucket_bytes = config.bucket_cap_bytes = config.unit_bytes = 4096;
  change(config);
  config.per_device_batch = 12 / replicas / config.accumulation_steps;
  return config;
}

std::map<int, Tensors> run_saving(const ResumedCase& one, std::vector<int> at,
                                  const Tensors* resumed = nullptr, int overflow_in = -1) {
  std::map<int, Tensors> saves;
  for (const int steps : at) saves[steps];
  test::run_strategy(one.model(), one.config,
                     {.steps = kResumedSteps,
                      .overflow_in = overflow_in,
                      .resumed_at = resumed != nullptr ? kSavedStep : 0,
                      .resumed = resumed,
                      .saves = &saves});
  return saves;
}

void expect_same_tensors(const Tensors& one, const Tensors& other) {
  ASSERT_EQ(nn::infos_of(one), nn::infos_of(other));
  for (std::size_t t = 0; t < one.size(); ++t) {
    EXPECT_EQ(one[t].values, other[t].values) << one[t].name;
    EXPECT_EQ(one[t].integers, other[t].integers) << one[t].name;
  }
}

// As StrategyEquivalence has it: sums of 12 x 90 products in another order, in each step.
double resumed_tolerance() {
  return 32 * kResumedSteps * std::sqrt(12.0 * 90) * std::ldexp(1.0, -24);
}

class Resumed : public ::testing::TestWithParam<ResumedCase> {};

TEST_P(Resumed, GoesOnBitForBit) {
  const std::map<int, Tensors> whole = run_saving(GetParam(), {kResumedSteps});
  const std::map<int, Tensors> saved = run_saving(GetParam(), {kSavedStep, kResumedSteps});
  ASSERT_FALSE(whole.at(kResumedSteps).empty());
  expect_same_tensors(whole.at(kResumedSteps), saved.at(kResumedSteps));  // saving changes nothing
  const std::map<int, Tensors> resumed =
      run_saving(GetParam(), {kResumedSteps}, &saved.at(kSavedStep));
  expect_same_tensors(whole.at(kResumedSteps), resumed.at(kResumedSteps));
  // Each part of it counts: training changes all that is saved.
  for (std::size_t t = 0; t < saved.at(kSavedStep).size(); ++t) {
    const nn::NamedTensor &before = saved.at(kSavedStep)[t], &after = saved.at(kResumedSteps)[t];
    EXPECT_TRUE(before.values != after.values || before.integers != after.integers) << before.name;
  }
}

const std::vector<ResumedCase> kResumedCases = {
    {"single", resumed_config("single", 1, warm_adamw())},
    {"single_dropping", resumed_config("single", 1, plain_sgd()), test::dropping_model},
    {"dp", resumed_config("dp", 3, warm_adamw())},
    {"dp_dropping", resumed_config("dp", 2, plain_sgd()), test::dropping_model},
    {"ddp", resumed_config("ddp", 3, plain_sgd())},
    {"ddp_accumulating",
     resumed_config("ddp", 2, warm_adamw(),
                    [](StrategyConfig& config) { config.accumulation_steps = 2; })},
    {"ddp_broadcasting",
     resumed_config("ddp", 2, warm_adamw(),
                    [](StrategyConfig& config) { config.broadcast_buffers = true; })},
    {"ddp_dropping", resumed_config("ddp", 3, warm_adamw()), test::dropping_model},
    {"ddp_compressing",
     resumed_config("ddp", 3, plain_sgd(),
                    [](StrategyConfig& config) { config.comm_hook = "topk:5"; })},
    {"ddp_approximating",
     resumed_config("ddp", 3, plain_sgd(),
                    [](StrategyConfig& config) { config.comm_hook = "powersgd:2"; })},
    {"ddp_scaled", resumed_config("ddp", 2, warm_adamw(),
                                  [](StrategyConfig& config) { config.scales_loss = true; })},
    {"ps",
     resumed_config("ps", 3, warm_adamw(), [](StrategyConfig& config) { config.servers = 2; })},
    {"ps_sgd",
     resumed_config("ps", 2, plain_sgd(), [](StrategyConfig& config) { config.servers = 3; })},
    {"ps_worker", resumed_config("ps", 2, warm_adamw(),
                                 [](StrategyConfig& config) {
                                   config.servers = 1;
                                   config.ps_update = PsUpdate::worker;
                                 })},
    {"ps_async_one", resumed_config("ps", 1, warm_adamw(),
                                    [](StrategyConfig& config) {
                                      config.servers = 2;
                                      config.max_staleness = 1;
                                    })},
    {"zero1", resumed_config("zero1", 3, warm_adamw())},
    {"zero1_two", resumed_config("zero1", 2, plain_sgd())},
    {"zero2", resumed_config("zero2", 3, warm_adamw())},
    {"zero3", resumed_config("zero3", 3, warm_adamw())},
    {"zero2_accumulating",
     resumed_config("zero2", 2, plain_sgd(),
                    [](StrategyConfig& config) { config.accumulation_steps = 2; })},
    {"pipeline", resumed_config("pipeline", 1, warm_adamw(),
                                [](StrategyConfig& config) {
                                  config.stages = 2;
                                  config.accumulation_steps = 3;
                                })},
    {"pipeline_hybrid", resumed_config("pipeline", 2, plain_sgd(),
                                       [](StrategyConfig& config) {
                                         config.stages = config.accumulation_steps = 2;
                                         config.broadcast_buffers = true;
                                       })},
    {"localsgd", resumed_config("localsgd", 2, plain_sgd(),
                                [](StrategyConfig& config) { config.sync_every = 2; })},
    {"localsgd_scaled", resumed_config("localsgd", 3, warm_adamw(),
                                       [](StrategyConfig& config) {
                                         config.sync_every = 2;
                                         config.scales_loss = true;
                                       })},
    {"localsgd_outer", resumed_config("localsgd", 3, warm_adamw(), [](StrategyConfig& config) {
       config.sync_every = 4;
       config.outer_lr = 0.7;
       config.outer_momentum = 0.9;
     })}};

INSTANTIATE_TEST_SUITE_P(Strategies, Resumed, ::testing::ValuesIn(kResumedCases),
                         [](const auto& of) { return of.param.name; });

// From each to each, with the global batch of all: what is left is rounding.
TEST(TrainingState, GoOnWithAnotherStrategyOrNumberOfReplicas) {
  std::vector<ResumedCase> exact;
  for (const ResumedCase& one : kResumedCases) {
    if (outcome_of(one.config) != Outcome::approximate) {
      exact.push_back({one.name, one.config, test::small_model});
      exact.back().config.optimizer = plain_sgd();
    }
  }
  const ResumedCase single{"single", resumed_config("single", 1, plain_sgd()), test::small_model};
  const Tensors start = test::starting_weights(test::small_model(), 7);
  const Tensors whole = run_saving(single, {kResumedSteps}).at(kResumedSteps);
  const Tensors here = run_saving(single, {kSavedStep}).at(kSavedStep);
  for (const ResumedCase& one : exact) {
    const Tensors there = run_saving(one, {kSavedStep}).at(kSavedStep);
    for (const Tensors& end : {run_saving(single, {kResumedSteps}, &there).at(kResumedSteps),
                               run_saving(one, {kResumedSteps}, &here).at(kResumedSteps)}) {
      EXPECT_LT(test::relative_error(start, end, whole), resumed_tolerance()) << one.name;
    }
  }
}

// An update that was skipped is none of Adam's, nor of the learning rate's.
TEST(TrainingState, KeepTheLossScaleAndWhatItSkipped) {
  const ResumedCase one{"ddp", resumed_config("ddp", 2, warm_adamw(), [](StrategyConfig& config) {
                          config.scales_loss = true;
                        })};
  const auto whole = run_saving(one, {kSavedStep, kResumedSteps}, nullptr, 1);
  const Tensors& saved = whole.at(kSavedStep);
  EXPECT_EQ(saved.back().name, "optimizer.loss_scale");
  EXPECT_EQ(saved.back().integers, (std::vector<std::int64_t>{32768, 2, 1}));
  expect_same_tensors(whole.at(kResumedSteps),
                      run_saving(one, {kResumedSteps}, &saved).at(kResumedSteps));
}

// Each replica has its own.
TEST(TrainingState, KeepTheLossScaleOfEachReplicaOfLocalSgd) {
  const ResumedCase one{"localsgd",
                        resumed_config("localsgd", 2, warm_adamw(), [](StrategyConfig& config) {
                          config.scales_loss = true;
                          config.sync_every = 2;
                        })};
  const auto whole = run_saving(one, {kSavedStep, kResumedSteps}, nullptr, 1);
  const Tensors& saved = whole.at(kSavedStep);
  const auto scale = [&](const std::string& name) {
    return std::ranges::find(saved, name, &nn::NamedTensor::name)->integers;
  };
  using Scale = std::vector<std::int64_t>;
  EXPECT_EQ(scale("optimizer.loss_scale"), (Scale{65536, 4, 0}));
  EXPECT_EQ(scale("rank1.optimizer.loss_scale"), (Scale{32768, 2, 1}));
  expect_same_tensors(whole.at(kResumedSteps),
                      run_saving(one, {kResumedSteps}, &saved).at(kResumedSteps));
}

// Stages of a pipeline save theirs one after the other.
Tensors in_order(Tensors tensors) {
  std::ranges::sort(tensors, {}, &nn::NamedTensor::name);
  return tensors;
}

// Slots and counters, too: what was saved is what another strategy would save at once.
TEST(TrainingState, IsEqualBitForBitAfterAnotherStrategyLoadedIt) {
  const ResumedCase single{"single", resumed_config("single", 1, warm_adamw()), test::small_model};
  const Tensors here = run_saving(single, {kSavedStep}).at(kSavedStep);
  for (ResumedCase one : kResumedCases) {
    // A loss scale is a tensor more.
    if (outcome_of(one.config) == Outcome::approximate || one.config.scales_loss) continue;
    SCOPED_TRACE(one.name);
    one.config.optimizer = warm_adamw();
    one.model = test::small_model;
    expect_same_tensors(in_order(run_saving(one, {kSavedStep}, &here).at(kSavedStep)),
                        in_order(here));
    const Tensors there = run_saving(one, {kSavedStep}).at(kSavedStep);
    expect_same_tensors(in_order(run_saving(single, {kSavedStep}, &there).at(kSavedStep)),
                        in_order(there));
  }
}

// Whose push comes first is chance. So what was loaded is compared with what was saved, and the
// rate is 0 from there on, by the updates that servers count.
TEST(TrainingState, KeepServersThatServeOneByOne) {
  for (int StrategyConfig::*const kind :
       {&StrategyConfig::max_staleness, &StrategyConfig::backup_workers}) {
    ResumedCase one{"ps", resumed_config("ps", 3, warm_adamw()), test::small_model};
    one.config.servers = 2;
    one.config.*kind = 1;
    one.config.optimizer.schedule = {
        .kind = ops::ScheduleKind::step, .step_size = kSavedStep, .gamma = 0};
    const Tensors saved = run_saving(one, {kSavedStep}).at(kSavedStep);
    const auto resumed = run_saving(one, {kSavedStep, kResumedSteps}, &saved);
    expect_same_tensors(resumed.at(kSavedStep), saved);
    for (std::size_t t = 0; t < saved.size(); ++t) {
      const bool moves = saved[t].name.starts_with("optimizer.");
      EXPECT_EQ(resumed.at(kResumedSteps)[t].values != saved[t].values, moves) << saved[t].name;
    }
  }
}

TEST(TrainingState, NameSlotsAsPyTorchDoes) {
  const Tensors saved = run_saving(kResumedCases.front(), {kSavedStep}).at(kSavedStep);
  std::set<std::string> names;
  for (const nn::NamedTensor& tensor : saved) names.insert(tensor.name);
  for (const char* name : {"fc1.weight", "norm1.running_mean", "optimizer.exp_avg.fc1.weight",
                           "optimizer.exp_avg_sq.conv1.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(TrainingState, RefuseSlotsThatAreMissing) {
  ResumedCase one{"ddp", resumed_config("ddp", 2, plain_sgd())};
  const Tensors saved = run_saving(one, {kSavedStep}).at(kSavedStep);
  one.config.optimizer = warm_adamw();
  EXPECT_THROW(run_saving(one, {kResumedSteps}, &saved), ConfigError);
}

}  // namespace
}  // namespace ddpbench
