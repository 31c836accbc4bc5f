// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Every strategy computes what one device computes. The faults that verification must catch change
// the result by far more than rounding.
#include "parallel/strategies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "base/error.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

using test::HarnessOptions;
using test::HarnessResult;
using test::relative_error;
using test::run_strategy;
using test::small_model;
using test::starting_weights;

constexpr std::int64_t kGlobalBatch = 24;
constexpr int kSteps = 4;
constexpr std::uint64_t kSeed = 7;

// Two fp32 computations of the same K updates sum in different orders. Each gradient element is a
// sum of n = batch x positions products. Their rounding errors differ by about sqrt(n) u relative
// to the sum of magnitudes (Higham & Mary 2019). 32 allows for cancellation in that sum (a gradient
// is about 1/32 of its terms' magnitudes). The error grows with the K steps.
double tolerance() {
  const double n = static_cast<double>(kGlobalBatch) * 10 * 9;
  return 32 * kSteps * std::sqrt(n) * std::ldexp(1.0, -24);
}

StrategyConfig config_of(const std::string& strategy, int replicas) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.per_device_batch = kGlobalBatch / replicas;
  config.optimizer = {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  config.first_bucket_bytes = 256;  // several buckets although the network is small
  config.bucket_cap_bytes = config.unit_bytes = 4096;
  return config;
}

HarnessResult run(const StrategyConfig& config) {
  return run_strategy(small_model(), config, {.steps = kSteps, .seed = kSeed});
}

struct Case {
  std::string strategy;
  int replicas;
  bool overlap = true;
  PsUpdate update = PsUpdate::server;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.strategy << " on " << c.replicas; }

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string name = c.strategy + "On" + std::to_string(c.replicas);
  if (!c.overlap) name += "WithoutOverlap";
  if (c.update == PsUpdate::worker) name += "UpdatingOnWorkers";
  return name;
}

class StrategyEquivalence : public testing::TestWithParam<Case> {
 protected:
  StrategyConfig config() const {
    StrategyConfig config = config_of(GetParam().strategy, GetParam().replicas);
    config.overlap = GetParam().overlap;
    config.ps_update = GetParam().update;
    return config;
  }
  // The error of the worst replica against the accumulated reference.
  double error_of(const StrategyConfig& config) const {
    const auto start = starting_weights(small_model(), kSeed);
    const auto reference = run(config_of("reference", GetParam().replicas)).weights[0];
    double worst = 0;
    for (const auto& weights : run(config).weights) {
      worst = std::max(worst, relative_error(start, weights, reference));
    }
    return worst;
  }
};

TEST_P(StrategyEquivalence, MatchesOneDeviceAtEqualGlobalBatch) {
  const auto start = starting_weights(small_model(), kSeed);
  const auto single = run(config_of("single", 1));
  const auto result = run(config());
  for (const auto& weights : result.weights) {
    EXPECT_LT(relative_error(start, weights, single.weights[0]), tolerance());
  }
  EXPECT_EQ(result.counted, single.counted);
  EXPECT_NEAR(result.loss_sum, single.loss_sum, single.loss_sum * tolerance());
}

TEST_P(StrategyEquivalence, MatchesTheAccumulatedReference) {
  EXPECT_LT(error_of(config()), tolerance());
}

TEST_P(StrategyEquivalence, KeepsReplicasBitEqual) {
  const auto result = run(config());
  for (const auto& weights : result.weights) {
    for (std::size_t t = 0; t < weights.size(); ++t) {
      EXPECT_EQ(weights[t].values, result.weights[0][t].values) << weights[t].name;
    }
  }
}

TEST_P(StrategyEquivalence, GivesTheGradientsOfItsUpdate) {
  auto nothing = starting_weights(small_model(), kSeed);
  for (auto& tensor : nothing) std::ranges::fill(tensor.values, 0.0F);
  const auto reference = run(config_of("reference", GetParam().replicas)).gradients[0];
  int found = 0;
  for (const auto& gradients : run(config()).gradients) {
    if (gradients.empty()) continue;
    EXPECT_LT(relative_error(nothing, gradients, reference), tolerance());
    ++found;
  }
  EXPECT_EQ(found, GetParam().strategy == "dp" ? 1 : GetParam().replicas);
}

TEST_P(StrategyEquivalence, GivesTheSameBitsWhenRunAgain) {
  const auto first = run(config()).weights;
  const auto second = run(config()).weights;
  for (std::size_t t = 0; t < first[0].size(); ++t) {
    EXPECT_EQ(first[0][t].values, second[0][t].values) << first[0][t].name;
  }
}

TEST_P(StrategyEquivalence, StartsAfreshAfterReset) {
  const auto once = run(config()).weights;
  const auto again = run_strategy(small_model(), config(),
                                  {.steps = kSteps, .seed = kSeed, .reset_in_between = true})
                         .weights;
  for (std::size_t t = 0; t < once[0].size(); ++t) {
    EXPECT_EQ(once[0][t].values, again[0][t].values) << once[0][t].name;
  }
}

// Parameters are assigned wherever they are kept, and the momentum goes on.
TEST_P(StrategyEquivalence, TakesParametersBetweenSteps) {
  const HarnessOptions options{.steps = kSteps, .seed = kSeed, .factor = 0.5f};
  const auto start = starting_weights(small_model(), kSeed);
  const auto reference =
      run_strategy(small_model(), config_of("reference", GetParam().replicas), options);
  const auto result = run_strategy(small_model(), config(), options);
  for (const auto& weights : result.weights) {
    EXPECT_LT(relative_error(start, weights, reference.weights[0]), tolerance());
  }
}

// What is dropped depends on a sample's place in the global batch, not on the device that has it.
TEST_P(StrategyEquivalence, DropsWhatOneDeviceDrops) {
  const nn::ModelSpec model = test::dropping_model();
  const HarnessOptions options{.steps = kSteps, .seed = kSeed};
  const auto run_with = [&](StrategyConfig config, std::uint64_t seed) {
    config.seed = seed;
    return run_strategy(model, config, options).weights;
  };
  const auto start = starting_weights(model, kSeed);
  const auto single = run_with(config_of("single", 1), 5)[0];
  const auto reference = run_with(config_of("reference", GetParam().replicas), 5)[0];
  EXPECT_LT(relative_error(start, reference, single), tolerance());
  for (const auto& weights : run_with(config(), 5)) {
    EXPECT_LT(relative_error(start, weights, single), tolerance());
    EXPECT_LT(relative_error(start, weights, reference), tolerance());
  }
  EXPECT_GT(relative_error(start, run_with(config(), 6)[0], single), 100 * tolerance());
}

// With weights that most gradients hardly change, so that the others' signs decide little.
TEST_P(StrategyEquivalence, MatchesTheAccumulatedReferenceWithEveryOptimizer) {
  const auto start = starting_weights(small_model(), kSeed);
  using enum ops::OptimizerKind;
  for (const ops::OptimizerOptions& optimizer :
       {ops::OptimizerOptions{.lr = 0.05, .nesterov = true},
        ops::OptimizerOptions{.kind = adam, .lr = 0.01, .epsilon = 0.1, .weight_decay = 0.01},
        ops::OptimizerOptions{.kind = adamw, .lr = 0.01, .epsilon = 0.1, .weight_decay = 0.1}}) {
    StrategyConfig compared = config(), reference = config_of("reference", GetParam().replicas);
    compared.optimizer = reference.optimizer = optimizer;
    const auto expected = run(reference).weights[0];
    for (const auto& weights : run(compared).weights) {
      EXPECT_LT(relative_error(start, weights, expected), tolerance()) << to_string(optimizer.kind);
    }
  }
}

class PlantedFault : public StrategyEquivalence {};

TEST_P(PlantedFault, AMissingBucketIsFarOutsideTheTolerance) {
  StrategyConfig faulty = config();
  faulty.faults.missing_bucket = 0;
  EXPECT_GT(error_of(faulty), 10 * tolerance());
}

TEST_P(PlantedFault, ASumForAnAverageIsFarOutsideTheTolerance) {
  StrategyConfig faulty = config();
  faulty.faults.sum_for_average = true;
  EXPECT_GT(error_of(faulty), 10 * tolerance());
}

TEST_P(PlantedFault, OneRanksStaleParameterIsFarOutsideTheTolerance) {
  StrategyConfig faulty = config();
  faulty.faults.stale_replica = GetParam().replicas - 1;
  faulty.faults.stale_step = 1;
  EXPECT_GT(error_of(faulty), 10 * tolerance());
}

// All strategies in the table that compute what one device computes, with each way of working that
// they have.
std::vector<Case> exact_cases(int fewest_replicas) {
  std::vector<Case> cases;
  const auto add = [&](const Case& c) {
    if (c.replicas >= fewest_replicas) cases.push_back(c);
  };
  for (const StrategyTraits& row : all_strategies()) {
    if (!row.is_listed || row.splits_layers || row.outcome == Outcome::approximate) continue;
    const std::string name(row.name);
    for (int replicas = 1; replicas <= (row.is_baseline() ? 1 : 4); ++replicas) {
      add({name, replicas});
    }
    if (row.overlaps) add({name, 2, false});
    if (!row.has_servers) continue;
    for (const int replicas : {2, 3}) add({name, replicas, true, PsUpdate::worker});
  }
  return cases;
}

// One replica reduces nothing and cannot fall behind, so these have several.
INSTANTIATE_TEST_SUITE_P(, PlantedFault, testing::ValuesIn(exact_cases(2)), case_name);
INSTANTIATE_TEST_SUITE_P(, StrategyEquivalence, testing::ValuesIn(exact_cases(1)), case_name);

TEST(DataParallel, UsesMoreMemoryOnThePrimaryDevice) {
  const auto result = run(config_of("dp", 3));
  EXPECT_GT(result.peak_bytes[0], result.peak_bytes[1]);
  EXPECT_EQ(result.peak_bytes[1], result.peak_bytes[2]);
}

// Counts what strategies mark.
class CountingObserver : public PhaseObserver {
 public:
  void begin(Phase phase, Stream&) override { ++begun[static_cast<std::size_t>(phase)]; }
  void end(Phase phase, Stream&) override { ++ended[static_cast<std::size_t>(phase)]; }
  void bucket(const BucketTimes& times) override { buckets.push_back(times); }
  std::array<int, kPhaseCount> begun{}, ended{};
  std::vector<BucketTimes> buckets;
};

CountingObserver observe(const StrategyConfig& config) {
  CountingObserver observer;
  run_strategy(small_model(), config, {.steps = 1, .seed = kSeed, .observer = &observer});
  EXPECT_EQ(observer.begun, observer.ended);
  return observer;
}

// What a report says of communication comes from these alone.
TEST(Phases, OrBucketsTellWhatEveryStrategyExchanges) {
  for (const std::string& name : known_strategies()) {
    const auto observer = observe(config_of(name, name == "single" ? 1 : 2));
    auto transfers = std::ranges::count_if(
        observer.buckets, [](const BucketTimes& times) { return times.end_s > times.ready_s; });
    for (std::size_t p = 0; p < kPhaseCount; ++p) {
      if (is_transfer(static_cast<Phase>(p))) transfers += observer.begun[p];
    }
    EXPECT_EQ(transfers > 0, !strategy_traits(name).is_baseline()) << name;
  }
}

TEST(Phases, DataParallelMarksEveryPartOfItsStep) {
  const auto observer = observe(config_of("dp", 2));
  for (const Phase phase : {Phase::scatter, Phase::replicate, Phase::forward, Phase::gather,
                            Phase::loss, Phase::backward, Phase::reduce, Phase::optimizer}) {
    EXPECT_EQ(observer.begun[static_cast<std::size_t>(phase)], 1) << to_string(phase);
  }
}

TEST(Phases, DataParallelMarksWhatEveryReplicaDoes) {
  CountingObserver first, second, third;
  run_strategy(
      small_model(), config_of("dp", 3),
      {.steps = 1, .seed = kSeed, .observer = &first, .further_observers = {&second, &third}});
  for (const CountingObserver* other : {&second, &third}) {
    EXPECT_EQ(other->begun, other->ended);
    for (const Phase phase : {Phase::scatter, Phase::replicate, Phase::forward, Phase::gather,
                              Phase::loss, Phase::backward, Phase::reduce}) {
      EXPECT_EQ(other->begun[static_cast<std::size_t>(phase)], 1) << to_string(phase);
    }
    EXPECT_EQ(other->begun[static_cast<std::size_t>(Phase::optimizer)], 0);
  }
}

// One device has the buckets of ddp, which are ready one after the other and go nowhere.
TEST(Phases, OneDeviceTellsWhenItsBucketsAreReady) {
  const auto ddp = observe(config_of("ddp", 2));
  for (const char* name : {"single", "dp", "ddp"}) {
    const auto observer = observe(config_of(name, 1));
    ASSERT_EQ(observer.buckets.size(), ddp.buckets.size()) << name;
    for (std::size_t b = 0; b < ddp.buckets.size(); ++b) {
      const BucketTimes& times = observer.buckets[b];
      EXPECT_EQ(times.bytes, ddp.buckets[b].bytes);
      EXPECT_GT(times.ready_s, b == 0 ? 0 : observer.buckets[b - 1].ready_s);
      EXPECT_EQ(times.start_s, times.ready_s);
      EXPECT_EQ(times.end_s, times.ready_s);
    }
  }
}

TEST(Phases, DistributedDataParallelReportsEveryBucketInCausalOrder) {
  const auto observer = observe(config_of("ddp", 2));
  ASSERT_GT(observer.buckets.size(), 1u);
  for (const BucketTimes& times : observer.buckets) {
    EXPECT_LE(times.ready_s, times.start_s);
    EXPECT_LE(times.start_s, times.arrived_s);
    EXPECT_LE(times.arrived_s, times.end_s);
    EXPECT_GT(times.bytes, 0u);
  }
}

TEST(Phases, ParameterServerMarksPushAndPull) {
  const auto observer = observe(config_of("ps", 2));
  EXPECT_EQ(observer.begun[static_cast<std::size_t>(Phase::push)], 1);
  EXPECT_EQ(observer.begun[static_cast<std::size_t>(Phase::pull)], 1);
  EXPECT_EQ(observer.begun[static_cast<std::size_t>(Phase::optimizer)], 0);  // on the servers
  // A push and a pull for each of the two servers; pulls wait for the server between.
  ASSERT_EQ(observer.buckets.size(), 4u);
  for (std::size_t s = 0; s < 2; ++s) {
    const BucketTimes& push = observer.buckets[s];
    const BucketTimes& pull = observer.buckets[2 + s];
    EXPECT_EQ(pull.bytes, push.bytes);
    EXPECT_LE(push.arrived_s, push.end_s);
    EXPECT_LE(push.start_s, pull.end_s);
    EXPECT_LE(pull.start_s, pull.arrived_s);
  }
}

TEST(StrategyPlan, FeedsOneProcessTheGlobalBatchInDataParallel) {
  const auto plan = plan_strategy(config_of("dp", 3));
  ASSERT_EQ(plan.ranks.size(), 1u);
  EXPECT_EQ(plan.ranks[0].shards, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.ranks[0].batch, kGlobalBatch);
}

TEST(StrategyPlan, PutsServersAfterWorkers) {
  const auto plan = plan_strategy(config_of("ps", 3));
  ASSERT_EQ(plan.ranks.size(), 5u);
  EXPECT_EQ(plan.ranks[2].role, Role::worker);
  EXPECT_EQ(plan.ranks[3].role, Role::server);
  EXPECT_TRUE(plan.ranks[3].shards.empty());
}

TEST(StrategyPlan, LetsRanksOfDdpShareProcessesAndNoOthers) {
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    StrategyConfig config = config_of(strategy, 4);
    const StrategyPlan apart = plan_strategy(config);
    EXPECT_EQ(apart.ranks_per_process, 1) << strategy;
    config.devices_per_process = 2;
    const StrategyPlan shared = plan_strategy(config);
    EXPECT_EQ(shared.ranks_per_process, strategy == std::string("ddp") ? 2 : 1) << strategy;
    ASSERT_EQ(shared.ranks.size(), apart.ranks.size()) << strategy;
    for (std::size_t r = 0; r < apart.ranks.size(); ++r) {
      EXPECT_EQ(shared.ranks[r].replicas, apart.ranks[r].replicas) << strategy;
      EXPECT_EQ(shared.ranks[r].batch, apart.ranks[r].batch) << strategy;
    }
  }
}

TEST(StrategyPlan, RefusesWhatCannotTrain) {
  StrategyConfig several = config_of("single", 1);
  several.replicas = 2;
  EXPECT_THROW(plan_strategy(several), ConfigError);
  StrategyConfig uneven = config_of("ddp", 4);
  for (const int per_process : {0, 3, 8}) {
    uneven.devices_per_process = per_process;
    EXPECT_THROW(plan_strategy(uneven), ConfigError) << per_process;
  }
  StrategyConfig unknown = config_of("single", 1);
  unknown.strategy = "horovod";
  EXPECT_THROW(plan_strategy(unknown), ConfigError);
}

// ---- networks with state ----

StrategyConfig normalized_config(const std::string& strategy, int replicas, bool broadcast) {
  StrategyConfig config = config_of(strategy, replicas);
  config.broadcast_buffers = broadcast;
  return config;
}

HarnessResult run_normalized(const StrategyConfig& config) {
  return run_strategy(test::normalized_model(), config, {.steps = kSteps, .seed = kSeed});
}

// Statistics are means over at least 8 x 90 values, which the devices sum in the same order.
void expect_same_state(const std::vector<nn::NamedTensor>& state,
                       const std::vector<nn::NamedTensor>& expected) {
  ASSERT_EQ(state.size(), expected.size());
  for (std::size_t t = 0; t < state.size(); ++t) {
    EXPECT_EQ(state[t].integers, expected[t].integers) << state[t].name;
    for (std::size_t i = 0; i < state[t].values.size(); ++i) {
      EXPECT_NEAR(state[t].values[i], expected[t].values[i], tolerance()) << state[t].name;
    }
  }
}

class NormalizedStrategy : public testing::TestWithParam<Case> {};

// Each replica normalises by its own samples, and so does the reference by its slices. The state of
// the first replica, which moves with the first slice of each step, is what all runs have in
// common.
TEST_P(NormalizedStrategy, MatchesTheReferenceThatTakesSliceBySlice) {
  const Case& c = GetParam();
  const auto start = starting_weights(test::normalized_model(), kSeed);
  const auto reference = run_normalized(config_of("reference", c.replicas));
  for (const bool broadcast : {true, false}) {
    const auto result = run_normalized(normalized_config(c.strategy, c.replicas, broadcast));
    for (const auto& weights : result.weights) {
      EXPECT_LT(relative_error(start, weights, reference.weights[0]), tolerance());
    }
    expect_same_state(result.state[0], reference.state[0]);
  }
}

TEST_P(NormalizedStrategy, IsNotOneDeviceWithTheWholeBatch) {
  const Case& c = GetParam();
  const auto start = starting_weights(test::normalized_model(), kSeed);
  const auto whole = run_normalized(config_of("single", 1));
  const auto result = run_normalized(normalized_config(c.strategy, c.replicas, true));
  EXPECT_GT(relative_error(start, result.weights[0], whole.weights[0]), 100 * tolerance());
}

INSTANTIATE_TEST_SUITE_P(Strategies, NormalizedStrategy,
                         testing::Values(Case{"dp", 2}, Case{"dp", 3}, Case{"ddp", 2},
                                         Case{"ddp", 3}, Case{"zero1", 3}, Case{"zero2", 3},
                                         Case{"zero3", 3}, Case{"ps", 2}),
                         case_name);

// After a step each replica has moved the state that it began the step with by its own samples.
// Where rank 0's is broadcast (ddp) or replicated (dp), that is the first replica's.
TEST(StrategyState, OfTheFirstReplicaSurvivesWhereItIsSent) {
  const auto count_of = [](const std::vector<nn::NamedTensor>& state) {
    return state.at(2).integers.at(0);
  };
  const auto distance = [](const HarnessResult& result) {
    double most = 0;
    for (std::size_t i = 0; i < result.state[0][0].values.size(); ++i) {
      const double difference = result.state[0][0].values[i] - result.state[1][0].values[i];
      most = std::max(most, std::abs(difference));
    }
    return most;
  };
  const auto sent = run_normalized(normalized_config("ddp", 2, true));
  const auto kept = run_normalized(normalized_config("ddp", 2, false));
  const auto replicated = run_normalized(config_of("dp", 2));
  const auto served = run_normalized(config_of("ps", 2));
  expect_same_state(replicated.state[1], sent.state[1]);
  expect_same_state(served.state[1], kept.state[1]);
  for (const auto* result : {&sent, &kept, &replicated, &served}) {
    EXPECT_EQ(count_of(result->state[0]), kSteps);
    EXPECT_EQ(count_of(result->state[1]), kSteps);
    EXPECT_GT(distance(*result), 0) << "the last step's samples differ";
  }
  EXPECT_NE(sent.state[1][0].values, kept.state[1][0].values);
}

TEST(StrategyState, IsSentInAPhaseOfItsOwn) {
  const auto phases_of = [](const StrategyConfig& config) {
    CountingObserver observer;
    run_strategy(test::normalized_model(), config, {.steps = 2, .observer = &observer});
    return observer.begun[static_cast<std::size_t>(Phase::replicate)];
  };
  EXPECT_EQ(phases_of(normalized_config("ddp", 2, true)), 2);
  EXPECT_EQ(phases_of(normalized_config("ddp", 2, false)), 0);
}

TEST(StrategyState, IsAssignedWhereItIsKept) {
  for (const auto& [config, kept] :
       {std::pair(normalized_config("dp", 2, true), 1),
        std::pair(normalized_config("ddp", 2, true), 2),
        std::pair(normalized_config("ddp", 2, false), 2), std::pair(config_of("ps", 2), 2)}) {
    const auto result = run_strategy(test::normalized_model(), config,
                                     {.steps = kSteps, .seed = kSeed, .restore_state = true});
    EXPECT_EQ(result.assigned, kept) << config.strategy;
    // Every step begins with the start values, so that the count after the last is 1.
    for (const auto& state : result.state) EXPECT_EQ(state.at(2).integers.at(0), 1);
  }
}

}  // namespace
}  // namespace ddpbench
