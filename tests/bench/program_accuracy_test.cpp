// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --until-accuracy as a user runs it: all ranks of all strategies end with the same epoch.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/bench/program.h"
#include "tests/bench/world_ranks.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;

class UntilAccuracy : public testing::Test {
 protected:
  UntilAccuracy() {
    program.write("lenet.json",
                  test::small_config({.epochs = 3, .warmup_steps = 0, .verify_steps = 0}));
  }
  Program program;
};

TEST_F(UntilAccuracy, EndsRunsOfAllStrategiesWithTheFirstEpochThatReachesIt) {
  const auto result =
      program.run(small_run("single,dp,ddp,ps", {"--servers=2", "--until-accuracy=1%"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("to acc.: training time to the accuracy asked for"));
  const json report = program.report();
  EXPECT_EQ(report["config"]["until_accuracy"], "1%");
  ASSERT_EQ(report["runs"].size(), 4u);
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["status"], "ok");
    EXPECT_EQ(run["step"]["count"], 6);
    ASSERT_EQ(run["epochs"].size(), 1u);
    EXPECT_EQ(run["until_accuracy"]["target"], 0.01);
    EXPECT_EQ(run["until_accuracy"]["train_s"], run["epochs"][0]["time_s"]);
  }
}

TEST_F(UntilAccuracy, TrainsAllEpochsWhereItIsNotReachedAndSaysHowFarItCame) {
  const auto result = program.run(small_run("single,ddp", {"--until-accuracy=100%"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("100 % was not reached in 3 epochs: at best "));
  const json report = program.report();
  for (const json& run : report["runs"]) {
    EXPECT_EQ(run["epochs"].size(), 3u);
    EXPECT_TRUE(run["until_accuracy"]["train_s"].is_null());
    EXPECT_THAT(run["until_accuracy"]["train_s_reason"].get<std::string>(),
                HasSubstr("100 % was not reached in 3 epochs: at best "));
  }
}

// The accuracy that counts is that of all ranks' parts of the test set together.
TEST_F(UntilAccuracy, EndsWithTheEpochThatALongerRunOfTheSameSeedShows) {
  ASSERT_EQ(program.run(small_run("ddp", {"--gpus=3", "--lr=0.05"})).exit_code, 0);
  const json epochs = program.report()["runs"][0]["epochs"];
  EXPECT_FALSE(program.report()["runs"][0].contains("until_accuracy"));
  ASSERT_EQ(epochs.size(), 3u);
  double best = 0;
  for (const json& epoch : epochs) best = std::max(best, epoch["test_accuracy"].get<double>());
  std::size_t first = 0;
  double seconds = 0;
  while (epochs[first]["test_accuracy"] != best) ++first;
  const std::string target = fmt::format("--until-accuracy={:.2f}%", 100 * best);
  ASSERT_EQ(program.run(small_run("ddp", {"--gpus=3", "--lr=0.05", "--force", target})).exit_code,
            0);
  const json run = program.report()["runs"][0];
  ASSERT_EQ(run["epochs"].size(), first + 1) << target;
  for (const json& epoch : run["epochs"]) seconds += epoch["time_s"].get<double>();
  EXPECT_DOUBLE_EQ(run["until_accuracy"]["train_s"], seconds);
}

TEST_F(UntilAccuracy, EndsAllRanksOfALauncher) {
  const auto results = program.run_together(
      {"--strategy=ddp", "--config=lenet.json", "--json=report.json", "--until-accuracy=1%"},
      test::world(2, test::free_port()));
  for (const auto& result : results) EXPECT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["epochs"].size(), 1u);
  EXPECT_FALSE(run["until_accuracy"]["train_s"].is_null());
}

}  // namespace
}  // namespace ddpbench
