// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The surveyed needs are what the strategies allocate when they run.
#include "parallel/needs_survey.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "kernels/nn/model/model_reader.h"
#include "kernels/runtime/cpu_device.h"
#include "parallel/strategies.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

struct Surveyed {
  AlikeDevices devices;
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

std::vector<Surveyed> survey(const StrategyConfig& config,
                             const nn::ModelSpec& model = test::small_model()) {
  const auto device = make_cpu_device({.index = 0, .cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  const SurveyPlace place{*device, *backend};
  std::vector<Surveyed> found;
  survey_needs(config, model, place, place, [&](const AlikeDevices& alike, MemoryNeeds& needs) {
    found.push_back({alike, needs.added_bytes(), needs.by_category()});
  });
  EXPECT_EQ(device->memory().total_live_bytes, 0U);
  return found;
}

StrategyConfig surveyed_config(const std::string& strategy, int replicas) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = strategy_traits(strategy).has_servers ? 2 : 0;
  config.per_device_batch = 12;
  config.optimizer = {.lr = 0.05F, .momentum = 0.9F, .weight_decay = 0};
  return config;
}

std::size_t in(const Surveyed& found, MemoryCategory category) {
  return found.by_category[static_cast<std::size_t>(category)];
}

// The words that ddp's ranks exchange are freed before the peak, or not yet there.
constexpr std::size_t kExchanged = 512;

class SurveyedStrategy : public testing::TestWithParam<std::string> {
 protected:
  static void expect_what_it_allocates(const nn::ModelSpec& model, bool broadcast_buffers) {
    StrategyConfig config = surveyed_config(GetParam(), GetParam() == "single" ? 1 : 3);
    config.broadcast_buffers = broadcast_buffers;
    const std::vector<Surveyed> found = survey(config, model);
    const test::HarnessResult result = test::run_strategy(model, config);
    for (const Surveyed& each : found) {
      if (each.devices.role == Role::server) continue;
      EXPECT_EQ(in(each, MemoryCategory::state) > 0, model.has_state()) << each.devices.device;
      const std::size_t peak = result.peak_bytes.at(each.devices.device);
      EXPECT_GE(each.bytes, peak) << each.devices.device;
      EXPECT_LE(each.bytes, peak + kExchanged) << each.devices.device;
    }
  }
};

TEST_P(SurveyedStrategy, NeedsWhatItAllocates) {
  expect_what_it_allocates(test::small_model(), false);
}
TEST_P(SurveyedStrategy, NeedsWhatItAllocatesForANetworkWithState) {
  expect_what_it_allocates(test::normalized_model(), false);
  expect_what_it_allocates(test::normalized_model(), true);
}
// Adam keeps two tensors for each parameter, where the parameters are updated, and a step.
TEST_P(SurveyedStrategy, NeedsTheSlotsOfItsOptimizer) {
  StrategyConfig config = surveyed_config(GetParam(), GetParam() == "single" ? 1 : 3);
  const auto optimizer_of = [](const Surveyed& found) {
    return in(found, MemoryCategory::optimizer);
  };
  const std::vector<Surveyed> sgd = survey(config);
  config.optimizer.kind = ops::OptimizerKind::adam;
  const std::vector<Surveyed> adam = survey(config);
  config.optimizer = {.momentum = 0};
  const std::vector<Surveyed> plain = survey(config);
  ASSERT_EQ(adam.size(), sgd.size());
  std::size_t most = 0;
  for (std::size_t i = 0; i < sgd.size(); ++i) {
    const std::size_t slot = optimizer_of(sgd[i]);
    EXPECT_EQ(optimizer_of(adam[i]), slot == 0 ? 0 : 2 * slot + 64);
    EXPECT_EQ(optimizer_of(plain[i]), 0);
    most = std::max(most, slot);
  }
  EXPECT_GT(most, 0);
}

// Each rank has an n-th of the optimizer's state, and the tail that all update.
TEST(NeedsSurvey, FindsAPartOfTheOptimizersStateWhereItIsSharded) {
  for (const int n : {2, 4}) {
    const std::size_t whole = in(survey(surveyed_config("ddp", n))[0], MemoryCategory::optimizer);
    const std::size_t part = in(survey(surveyed_config("zero1", n))[0], MemoryCategory::optimizer);
    const auto ranks = static_cast<std::size_t>(n);
    EXPECT_GE(part, whole / ranks);
    EXPECT_LE(part, whole / ranks + 64 * ranks);
  }
}

TEST(NeedsSurvey, FindsTheGradientsThatVerificationGathersFromShards) {
  StrategyConfig config = surveyed_config("zero2", 2);
  const auto gradients_of = [](const StrategyConfig& one) {
    return in(survey(one)[0], MemoryCategory::gradients);
  };
  const std::size_t trained = gradients_of(config);
  config.is_verified = true;
  EXPECT_EQ(gradients_of(config), trained + gradients_of(surveyed_config("ddp", 2)));
}

TEST(NeedsSurvey, FindsWhatAHookEncodesAndKeeps) {
  const Surveyed plain = survey(surveyed_config("ddp", 3))[0];
  const std::size_t gradients = in(plain, MemoryCategory::gradients);
  // Of three ranks: halves; bytes of each, and the error; the values and places of each, likewise;
  // the error of matrices, and thin factors.
  for (const auto& [hook, share] : {std::pair("bf16", 0.5),
                                    {"int8", 3 * 0.25 + 1},
                                    {"topk:10", 3 * 0.15 + 1},
                                    {"powersgd:1", 1.03}}) {
    StrategyConfig config = surveyed_config("ddp", 3);
    config.comm_hook = hook;
    const Surveyed found = survey(config)[0];
    const std::size_t peak = test::run_strategy(test::small_model(), config).peak_bytes.at(0);
    EXPECT_GE(found.bytes, peak) << hook;
    EXPECT_LE(found.bytes, peak + kExchanged) << hook;
    const std::size_t more =
        in(found, MemoryCategory::communication) - in(plain, MemoryCategory::communication);
    EXPECT_NEAR(static_cast<double>(more) / static_cast<double>(gradients), share, 0.1) << hook;
  }
}

nn::ModelSpec many_equal_layers() {
  std::string layers;
  for (int i = 0; i < 8; ++i) {
    layers += fmt::format(R"({{"name": "fc{}", "type": "linear", "out_features": 64}},)", i);
  }
  return nn::parse_model(R"({"name": "equal", "input": [1, 8, 8], "layers": [)" + layers +
                             R"({"name": "out", "type": "linear", "out_features": 4}]})",
                         "equal layers");
}

// zero2 holds the gradients that a rank owns, and those of buckets on their way.
TEST(NeedsSurvey, FindsGradientsInTheMemoryOfTheBucketsBefore) {
  const auto gradients = [](const char* strategy) {
    StrategyConfig config = surveyed_config(strategy, 4);
    config.first_bucket_bytes = config.bucket_cap_bytes = 256;
    return in(survey(config, many_equal_layers())[0], MemoryCategory::gradients);
  };
  EXPECT_EQ(gradients("zero1"), gradients("ddp"));
  // A fourth of 8 layers, and 3 on their way.
  EXPECT_LT(gradients("zero2"), gradients("ddp") * 3 / 4);
  EXPECT_GE(gradients("zero2"), gradients("ddp") / 4);
}

// zero3 holds a part of weights, gradients and optimizer's state, and few units of the first two.
TEST(NeedsSurvey, FindsAPartOfAllAndTwoUnitsWhereWeightsAreSharded) {
  const auto found = [](const char* strategy, MemoryCategory category) {
    StrategyConfig config = surveyed_config(strategy, 4);
    config.unit_bytes = 256;
    return in(survey(config, many_equal_layers())[0], category);
  };
  const auto held = [&](const char* strategy) {
    return found(strategy, MemoryCategory::weights) + found(strategy, MemoryCategory::gradients) +
           found(strategy, MemoryCategory::optimizer);
  };
  // A fourth, and two of 8 layers, all alike.
  EXPECT_LE(found("zero3", MemoryCategory::weights),
            found("ddp", MemoryCategory::weights) * 17 / 32);
  EXPECT_LE(held("zero3"), held("ddp") * 17 / 32);
}

INSTANTIATE_TEST_SUITE_P(, SurveyedStrategy, testing::ValuesIn(known_strategies()),
                         [](const auto& p) { return p.param; });

TEST(NeedsSurvey, TellsOfEachKindOfDeviceOnce) {
  const auto kinds = [](const std::string& strategy, int replicas) {
    std::vector<std::vector<int>> told;
    for (const Surveyed& found : survey(surveyed_config(strategy, replicas))) {
      told.push_back({found.devices.rank, static_cast<int>(found.devices.device),
                      found.devices.count, found.devices.role == Role::server ? 1 : 0});
    }
    return told;
  };
  using Kinds = std::vector<std::vector<int>>;
  EXPECT_EQ(kinds("single", 1), (Kinds{{0, 0, 1, 0}}));
  EXPECT_EQ(kinds("dp", 4), (Kinds{{0, 0, 1, 0}, {0, 1, 3, 0}}));
  EXPECT_EQ(kinds("dp", 1), (Kinds{{0, 0, 1, 0}}));
  EXPECT_EQ(kinds("ddp", 4), (Kinds{{0, 0, 4, 0}}));
  EXPECT_EQ(kinds("ps", 4), (Kinds{{0, 0, 4, 0}, {4, 0, 2, 1}}));
}

// The servers' memory can be of another kind than the workers'.
TEST(NeedsSurvey, PlansServersInTheirPlace) {
  const auto worker = make_cpu_device({.index = 0, .cores = {}}),
             server = make_cpu_device({.index = 1, .cores = {}});
  const auto of_worker = ops::make_onednn_backend(*worker),
             of_server = ops::make_onednn_backend(*server);
  std::vector<const Device*> places;
  survey_needs(surveyed_config("ps", 3), test::small_model(), {*worker, *of_worker},
               {*server, *of_server},
               [&](const AlikeDevices&, MemoryNeeds& needs) { places.push_back(&needs.device()); });
  EXPECT_EQ(places, (std::vector<const Device*>{worker.get(), server.get()}));
}

TEST(NeedsSurvey, ShowsWhoHasWhat) {
  const auto dp = survey(surveyed_config("dp", 3));
  EXPECT_GT(in(dp[0], MemoryCategory::optimizer), 0U);
  EXPECT_EQ(in(dp[1], MemoryCategory::optimizer), 0U);
  EXPECT_GT(in(dp[0], MemoryCategory::communication), 0U);  // the gathered outputs
  EXPECT_GT(in(dp[1], MemoryCategory::input), 0U);
  const auto ps = survey(surveyed_config("ps", 3));
  // A server keeps its shard of the gradients of three workers, who have all of the weights.
  EXPECT_GT(in(ps[1], MemoryCategory::communication), in(ps[0], MemoryCategory::weights));
  EXPECT_EQ(in(ps[1], MemoryCategory::activations), 0U);
}

}  // namespace
}  // namespace ddpbench
