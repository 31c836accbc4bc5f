// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Options that mean something beside some values of another option only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/options/option_source.h"
#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OptionConditions : public testing::Test {
 protected:
  World world_with(const std::string& file, const Variables& variables = {}) {
    folder_.write("c.json", file);
    return {variables, {folder_.path()}};
  }
  TemporaryDirectory folder_;
};

TEST_F(OptionConditions, WhatDoesNothingWithTheOptimizerIsRefusedWithTheReason) {
  EXPECT_THAT(refusal({"--optimizer=adam", "--momentum=0.9"}),
              AllOf(HasSubstr("--momentum: it does nothing with adam (--optimizer)"),
                    HasSubstr("it is for --optimizer=sgd")));
  EXPECT_THAT(refusal({"--optimizer=adamw", "--nesterov"}), HasSubstr("--nesterov: it does"));
  EXPECT_THAT(refusal({"--beta1=0.5"}),
              AllOf(HasSubstr("--beta1: it does nothing with --optimizer=sgd, the default"),
                    HasSubstr("--optimizer=adam, adamw")));
}

TEST_F(OptionConditions, FilesAndVariablesAreRefusedAlike) {
  EXPECT_THAT(
      refusal({"--config=c"}, world_with(R"({"optimizer": {"name": "adam", "momentum": 0}})")),
      AllOf(HasSubstr("/optimizer/momentum: it does nothing"), HasSubstr("/optimizer/name")));
  EXPECT_THAT(
      refusal({"--config=c", "--momentum=0"}, world_with(R"({"optimizer": {"name": "adam"}})")),
      HasSubstr("--momentum: it does nothing with adam"));
  EXPECT_THAT(refusal({"--optimizer=adam"}, World{{{"DDPBENCH_EPSILON", "1e-8"}}, {}}),
              HasSubstr("<nothing was thrown>"));
  EXPECT_THAT(refusal({}, World{{{"DDPBENCH_EPSILON", "1e-8"}}, {}}),
              HasSubstr("DDPBENCH_EPSILON: it does nothing"));
}

// mnist.json says "sgd" and its momentum; --optimizer=adam is all that one needs to say.
TEST_F(OptionConditions, WhatAnEarlierLayerGaveToAnotherOptimizerIsForgotten) {
  const World world =
      world_with(R"({"optimizer": {"name": "sgd", "momentum": 0.5, "nesterov": true, "lr": 0.1}})");
  const Options options = options_of({"--config=c", "--optimizer=adam"}, world);
  EXPECT_EQ(options.optimizer, "adam");
  EXPECT_EQ(options.momentum, Options{}.momentum);
  EXPECT_FALSE(options.nesterov);
  EXPECT_EQ(options.lr, 1e-3);
}

TEST_F(OptionConditions, ARateBesideAnotherOptimizerIsForgottenAndThatIsSaid) {
  const World world =
      world_with(R"({"optimizer": {"name": "sgd", "lr": 0.1, "weight_decay": 0.2}})");
  const auto parsed = parse({"--config=c", "--optimizer=adamw"}, world);
  EXPECT_EQ(parsed.options.lr, 1e-3);
  EXPECT_EQ(parsed.options.weight_decay, 0.01);
  EXPECT_THAT(parsed.notes,
              testing::ElementsAre(AllOf(HasSubstr("--lr=0.001, the default of adamw: "),
                                         HasSubstr("/optimizer/lr is for sgd")),
                                   HasSubstr("--weight-decay=0.01, the default of adamw: ")));
  EXPECT_EQ(options_of({"--config=c", "--optimizer=adam", "--lr=0.03"}, world).lr, 0.03);
  EXPECT_EQ(options_of({"--config=c", "--optimizer=sgd"}, world).lr, 0.1);
  EXPECT_TRUE(parse({"--config=c", "--optimizer=sgd"}, world).notes.empty());
  // A rate that stands beside no optimizer is for all.
  const World plain = world_with(R"({"lr": 0.0005})");
  EXPECT_EQ(options_of({"--config=c", "--optimizer=adam"}, plain).lr, 0.0005);
}

TEST_F(OptionConditions, EntriesOfRunsForgetTheRateOfAnotherOptimizer) {
  const World world = world_with(R"({"optimizer": {"name": "sgd", "lr": 0.1},
      "runs": [{"optimizer": {"name": "sgd"}}, {"optimizer": {"name": "adam"}},
               {"optimizer": {"name": "adam", "lr": 0.02}}]})");
  const auto parsed = parse({"--config=c"}, world);
  ASSERT_EQ(parsed.options.runs.size(), 3u);
  EXPECT_EQ(parsed.options.runs[0].lr, 0.1);
  EXPECT_EQ(parsed.options.runs[1].lr, 1e-3);
  EXPECT_EQ(parsed.options.runs[2].lr, 0.02);
  EXPECT_EQ(parsed.notes.size(), 1u);
}

TEST_F(OptionConditions, OptimizersHavePyTorchsDefaults) {
  EXPECT_EQ(options_of({}).lr, 0.01);
  for (const std::string name : {"adam", "adamw"}) {
    const Options options = options_of({"--optimizer=" + name});
    EXPECT_EQ(options.lr, 1e-3);
    EXPECT_EQ(options.weight_decay, name == "adamw" ? 0.01 : 0);
    EXPECT_EQ(options_of({"--optimizer=" + name, "--lr=0.01", "--weight-decay=0"}).lr, 0.01);
    EXPECT_EQ(options_of({"--optimizer=" + name, "--weight-decay=0"}).weight_decay, 0);
  }
}

TEST_F(OptionConditions, ResolvedConfigurationsHaveOnlyWhatIsHeeded) {
  const nlohmann::json adam = to_json(options_of({"--optimizer=adam", "--beta1=0.8"}));
  EXPECT_EQ(adam["optimizer"],
            nlohmann::json::parse(R"({"name": "adam", "lr": 0.001, "beta1": 0.8, "beta2": 0.999,
                                      "epsilon": 1e-8, "weight_decay": 0.0})"));
  const nlohmann::json sgd = to_json(options_of({}));
  EXPECT_EQ(sgd["optimizer"], nlohmann::json::parse(R"({"name": "sgd", "lr": 0.01, "momentum": 0.9,
                                      "nesterov": false, "weight_decay": 0.0})"));
}

TEST_F(OptionConditions, SchedulesHaveTheirOwnSettings) {
  EXPECT_THAT(refusal({"--lr-schedule=step"}), HasSubstr("needs --lr-step-size=N"));
  EXPECT_THAT(refusal({"--lr-schedule=cosine", "--lr-gamma=0.5"}),
              AllOf(HasSubstr("--lr-gamma: it does nothing with cosine (--lr-schedule)"),
                    HasSubstr("--lr-schedule=step")));
  EXPECT_THAT(
      refusal({"--lr-step-size=3"}),
      HasSubstr("--lr-step-size: it does nothing with --lr-schedule=constant, the default"));
  EXPECT_THAT(refusal({"--lr-warmup-factor=0.5"}),
              AllOf(HasSubstr("--lr-warmup-factor: it does nothing with --lr-warmup-steps=0"),
                    HasSubstr("it is for --lr-warmup-steps.")));
  EXPECT_THAT(refusal({"--lr-schedule=cosine", "--lr-min=1"}), HasSubstr("--lr-min=1 is above"));
  const Options options = options_of(
      {"--lr-schedule=step", "--lr-step-size=3", "--lr-warmup-steps=5", "--lr-warmup-factor=0.5"});
  EXPECT_EQ(options.lr_step_size, 3);
  EXPECT_EQ(options.lr_warmup_factor, 0.5);
  const nlohmann::json resolved = to_json(options);
  EXPECT_TRUE(resolved.contains("lr_gamma"));
  EXPECT_FALSE(resolved.contains("lr_min"));
}

TEST_F(OptionConditions, NesterovNeedsMomentum) {
  EXPECT_TRUE(options_of({"--nesterov"}).nesterov);
  EXPECT_THAT(refusal({"--nesterov", "--momentum=0"}), HasSubstr("--momentum is 0"));
}

}  // namespace
}  // namespace ddpbench::bench
