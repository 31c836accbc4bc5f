// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The precedence of defaults, configuration file, variables and flags, and what they may not say
// together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(OptionSources, WithoutAnythingTheDefaultsHold) {
  Options expected;
  expected.batch_sizes = {kDefaultBatchSize};
  expected.strategies = {"single", "dp",    "ddp",      "ps",      "zero1",
                         "zero2",  "zero3", "localsgd", "pipeline"};
  EXPECT_EQ(options_of({}), expected);
}

TEST(OptionSources, EachLayerReplacesTheOneBefore) {
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"epochs": 2, "seed": 20, "servers": 2, "optimizer": {"lr": 0.2}})");
  const World world{{{"DDPBENCH_SEED", "30"}, {"DDPBENCH_SERVERS", "3"}, {"DDPBENCH_LR", "0.3"}},
                    {folder.path()}};
  const Options options = options_of({"--config=c", "--servers=4"}, world);
  EXPECT_EQ(options.repetitions, 1);                   // default
  EXPECT_EQ(options.epochs, 2);                        // file
  EXPECT_EQ(options.seed, 30U);                        // variable over file
  EXPECT_EQ(options.lr, 0.3);                          // variable over the file's nested key
  EXPECT_THAT(options.server_counts, ElementsAre(4));  // flag over variable over file
}

TEST(OptionSources, AVariableNamesTheConfigurationUnlessAFlagDoes) {
  const TemporaryDirectory folder;
  folder.write("a.json", R"({"epochs": 2})");
  folder.write("b.json", R"({"epochs": 3})");
  const World world{{{"DDPBENCH_CONFIG", "a"}}, {folder.path()}};
  EXPECT_EQ(options_of({}, world).epochs, 2);
  EXPECT_EQ(options_of({"--config=b"}, world).epochs, 3);
  EXPECT_EQ(options_of({"--config=b"}, world).config_path, folder.path() + "/b.json");
}

TEST(OptionSources, ASwitchCanBeTurnedOffAgain) {
  const World world{{{"DDPBENCH_QUIET", "on"}, {"DDPBENCH_OVERLAP", "off"}}};
  EXPECT_TRUE(options_of({}, world).quiet);
  EXPECT_FALSE(options_of({"--quiet=off"}, world).quiet);
  EXPECT_TRUE(options_of({"--quiet"}).quiet);
  EXPECT_THAT(options_of({}, world).overlaps, ElementsAre(false));
  EXPECT_THAT(options_of({"--overlap=on"}, world).overlaps, ElementsAre(true));
}

TEST(OptionSources, AnEmptyVariableCountsAsNotSet) {
  EXPECT_EQ(options_of({}, {{{"DDPBENCH_EPOCHS", ""}}}).epochs, 1);
}

TEST(OptionSources, AWrongValueIsRefusedAlsoWhenAHigherLayerReplacesIt) {
  EXPECT_THAT(refusal({"--epochs=2"}, {{{"DDPBENCH_EPOCHS", "two"}}}),
              HasSubstr("DDPBENCH_EPOCHS"));
}

TEST(OptionSources, BothBatchSizesInOneLayerExcludeEachOther) {
  EXPECT_THAT(refusal({"--batch-size=8", "--global-batch-size=8"}),
              AllOf(HasSubstr("--batch-size"), HasSubstr("--global-batch-size"),
                    HasSubstr("exclude each other")));
  EXPECT_THAT(refusal({}, {{{"DDPBENCH_BATCH_SIZE", "8"}, {"DDPBENCH_GLOBAL_BATCH_SIZE", "8"}}}),
              AllOf(HasSubstr("DDPBENCH_BATCH_SIZE"), HasSubstr("exclude each other")));
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"batch_size": 8, "global_batch_size": 8})");
  EXPECT_THAT(refusal({"--config=c"}, {{}, {folder.path()}}),
              AllOf(HasSubstr("c.json: /batch_size"), HasSubstr("c.json: /global_batch_size")));
}

TEST(OptionSources, ABatchSizeReplacesTheOtherOneOfALowerLayer) {
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"batch_size": 8})");
  const World world{{}, {folder.path()}};
  const Options strong = options_of({"--config=c", "--global-batch-size=32"}, world);
  EXPECT_THAT(strong.batch_sizes, IsEmpty());
  EXPECT_THAT(strong.global_batch_sizes, ElementsAre(32));
  const World variable{{{"DDPBENCH_GLOBAL_BATCH_SIZE", "32"}}, {folder.path()}};
  EXPECT_THAT(options_of({"--config=c"}, variable).batch_sizes, IsEmpty());
  const Options weak = options_of({"--config=c", "--batch-size=16"}, variable);
  EXPECT_THAT(weak.batch_sizes, ElementsAre(16));
  EXPECT_THAT(weak.global_batch_sizes, IsEmpty());
}

TEST(OptionSources, AGlobalBatchMustBeDivisibleByEveryDeviceCount) {
  EXPECT_THAT(refusal({"--strategy=ddp", "--gpus=1,2,3", "--global-batch-size=100"}),
              AllOf(HasSubstr("--global-batch-size=100"), HasSubstr("--gpus=3"), HasSubstr("102")));
  EXPECT_EQ(options_of({"--strategy=ddp", "--gpus=1,2,4", "--global-batch-size=100"}).gpus.size(),
            3U);
}

TEST(OptionSources, EveryGlobalBatchOfAListMustBeDivisible) {
  EXPECT_THAT(refusal({"--strategy=ddp", "--gpus=2", "--global-batch-size=64,65"}),
              HasSubstr("--global-batch-size=65"));
}

TEST(OptionSources, LimitsMustNotBeBelowWhatTheyLimit) {
  EXPECT_THAT(refusal({"--warmup-steps=5", "--warmup-max-steps=4"}),
              HasSubstr("--warmup-max-steps=4"));
  EXPECT_THAT(refusal({"--until-ci=2%", "--repetitions=8", "--max-repetitions=7"}),
              HasSubstr("--max-repetitions=7"));
  EXPECT_THAT(refusal({"--until-ci=2%", "--max-repetitions=5"}), HasSubstr("needs 6 repetitions"));
  EXPECT_EQ(options_of({"--until-ci=2%", "--max-repetitions=6"}).max_repetitions, 6);
  EXPECT_EQ(options_of({"--max-repetitions=3"}).max_repetitions, 3);  // there is nothing to limit
  EXPECT_EQ(options_of({"--repetitions=100"}).repetitions, 100);      // no limit without --until-ci
}

TEST(OptionSources, ATraceIsNoReport) {
  EXPECT_THAT(refusal({"--trace=r.json", "--json=r.json"}),
              HasSubstr("--json and --trace both name r.json"));
  EXPECT_THAT(refusal({"--trace=./r.json", "--json=r.json", "--force"}),
              HasSubstr("--json and --trace both name r.json"));
  EXPECT_THAT(refusal({"--save-model=f", "--json=f"}), HasSubstr("--json and --save-model both"));
  EXPECT_THAT(refusal({"--save-model=f", "--load-model=f"}), HasSubstr("--load-model both name f"));
  EXPECT_THAT(refusal({"--trace=r.json", "--resume=r.json"}),
              HasSubstr("--resume both name r.json"));
}

TEST(OptionSources, SavedWeightsNeedOneRun) {
  EXPECT_THAT(refusal({"--save-model=m.safetensors", "--batch-size=8,16"}), HasSubstr("2 runs"));
  EXPECT_THAT(refusal({"--save-model=m.safetensors", "--until-ci=2%"}), HasSubstr("several runs"));
  // The list gives no second run of single.
  EXPECT_EQ(options_of({"--save-model=m.safetensors", "--gpus=1,2"}).save_model, "m.safetensors");
}

TEST(OptionSources, SingleTakesAnyGlobalBatchBecauseItRunsOnOneDevice) {
  EXPECT_THAT(
      options_of({"--strategy=single", "--gpus=3", "--global-batch-size=100"}).global_batch_sizes,
      ElementsAre(100));
}

TEST(OptionSources, TheDeviceCountThatAllStandsForIsCheckedOnceItIsKnown) {
  Options options = options_of({"--strategy=ddp", "--gpus=all", "--global-batch-size=100"});
  options.gpus = {3};
  EXPECT_THAT(message_of([&] { check_options(options); }), HasSubstr("--gpus=3"));
}

TEST(OptionSources, ATraceNeedsObservationAndAFileOfItsOwn) {
  EXPECT_EQ(options_of({"--trace=t.json"}).trace_steps, 20);
  EXPECT_THAT(refusal({"--trace=t.json", "--observe=off"}), HasSubstr("--observe=off"));
  EXPECT_THAT(refusal({"--trace=t.json", "--json=t.json"}), HasSubstr("t.json"));
}

TEST(OptionSources, WeightsAreSavedByCommandsOfOneRunOnly) {
  const std::string save = "--save-model=w.safetensors";
  EXPECT_EQ(options_of({save}).save_model, "w.safetensors");
  EXPECT_EQ(options_of({save, "--gpus=1,2"}).gpus, (std::vector<int>{1, 2}));  // single runs once
  for (const std::string several : {"--strategy=single,ddp", "--repetitions=2"})
    EXPECT_THAT(refusal({save, several}),
                AllOf(HasSubstr("--save-model=w.safetensors"), HasSubstr("2 runs")));
  EXPECT_THAT(refusal({save, "--strategy=ddp", "--gpus=1,2,4"}), HasSubstr("3 runs"));
}

}  // namespace
}  // namespace ddpbench::bench
