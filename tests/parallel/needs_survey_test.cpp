// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The surveyed needs are what the strategies allocate when they run.
#include "parallel/needs_survey.h"

#include <gmock/gmock.h>

#include <numeric>

#include "kernels/runtime/cpu_device.h"
#include "tests/parallel/strategy_harness.h"

namespace ddpbench {
namespace {

struct Surveyed {
  AlikeDevices devices;
  std::size_t bytes = 0;
  CategoryBytes by_category{};
};

std::vector<Surveyed> survey(const StrategyConfig& config) {
  const auto device = make_cpu_device({.index = 0, .cores = {}});
  const auto backend = ops::make_onednn_backend(*device);
  std::vector<Surveyed> found;
  survey_needs(config, test::small_model(), *device, *backend,
               [&](const AlikeDevices& alike, MemoryNeeds& needs) {
                 found.push_back({alike, needs.added_bytes(), needs.by_category()});
               });
  EXPECT_EQ(device->memory().total_live_bytes, 0U);
  return found;
}

StrategyConfig surveyed_config(const std::string& strategy, int replicas) {
  StrategyConfig config;
  config.strategy = strategy;
  config.replicas = replicas;
  config.servers = strategy == "ps" ? 2 : 0;
  config.per_device_batch = 12;
  config.optimizer = {.lr = 0.05F, .momentum = 0.9F, .weight_decay = 0};
  return config;
}

std::size_t in(const Surveyed& found, MemoryCategory category) {
  return found.by_category[static_cast<std::size_t>(category)];
}

// The words that ddp's ranks exchange are freed before the peak, or not yet there.
constexpr std::size_t kExchanged = 512;

class SurveyedStrategy : public testing::TestWithParam<std::string> {};

TEST_P(SurveyedStrategy, NeedsWhatItAllocates) {
  const int replicas = GetParam() == "single" ? 1 : 3;
  const StrategyConfig config = surveyed_config(GetParam(), replicas);
  const std::vector<Surveyed> found = survey(config);
  const test::HarnessResult result = test::run_strategy(test::small_model(), config);
  for (const Surveyed& each : found) {
    if (each.devices.role == Role::server) continue;
    const std::size_t peak = result.peak_bytes.at(each.devices.device);
    EXPECT_GE(each.bytes, peak) << each.devices.device;
    EXPECT_LE(each.bytes, peak + kExchanged) << each.devices.device;
  }
}
INSTANTIATE_TEST_SUITE_P(, SurveyedStrategy, testing::Values("single", "dp", "ddp", "ps"),
                         [](const auto& p) { return p.param; });

TEST(NeedsSurvey, TellsOfEachKindOfDeviceOnce) {
  const auto kinds = [](const std::string& strategy, int replicas) {
    std::vector<std::vector<int>> told;
    for (const Surveyed& found : survey(surveyed_config(strategy, replicas))) {
      told.push_back({found.devices.process, static_cast<int>(found.devices.device),
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
