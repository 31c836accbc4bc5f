// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Values of flags: those that are taken, and the messages of those that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(OptionValues, ListsAreSeparatedByCommasAndKeepTheirOrder) {
  const Options options = options_of({"--strategy=ps, single,ddp", "--gpus", "4,1, 2"});
  EXPECT_THAT(options.strategies, ElementsAre("ps", "single", "ddp"));
  EXPECT_THAT(options.gpus, ElementsAre(4, 1, 2));
  EXPECT_FALSE(options.all_gpus);
}

TEST(OptionValues, WhatMakesAMatrixTakesLists) {
  const Options options = options_of(
      {"--batch-size=8,16", "--overlap=on,off", "--bucket-cap-mb=0.5,25", "--first-bucket-mb=1,4",
       "--servers=1, 2", "--ps-update=worker,server", "--ps-mode=async,sync", "--max-staleness=0,8",
       "--backup-workers=0,2", "--accumulation-steps=1,4", "--accumulation-sync=every,last",
       "--comm-hook=none,fp16,topk:0.5"});
  EXPECT_THAT(options.batch_sizes, ElementsAre(8, 16));
  EXPECT_THAT(options.overlaps, ElementsAre(true, false));
  EXPECT_THAT(options.bucket_caps_mb, ElementsAre(0.5, 25));
  EXPECT_THAT(options.first_buckets_mb, ElementsAre(1, 4));
  EXPECT_THAT(options.server_counts, ElementsAre(1, 2));
  EXPECT_THAT(options.accumulation_steps, ElementsAre(1, 4));
  EXPECT_THAT(options.accumulation_syncs, ElementsAre("every", "last"));
  EXPECT_THAT(options.comm_hooks, ElementsAre("none", "fp16", "topk:0.5"));
  EXPECT_THAT(options.ps_updates, ElementsAre("worker", "server"));
  EXPECT_THAT(options.ps_modes, ElementsAre("async", "sync"));
  EXPECT_THAT(options.max_stalenesses, ElementsAre(0, 8));
  EXPECT_THAT(options.backup_workers, ElementsAre(0, 2));
  EXPECT_THAT(options_of({"--global-batch-size=8,16"}).global_batch_sizes, ElementsAre(8, 16));
}

TEST(OptionValues, SharesAreWrittenWithPercentSigns) {
  EXPECT_EQ(options_of({"--until-ci=2%"}).until_ci, Percent{2});
  EXPECT_EQ(options_of({"--until-ci=0.5%"}).until_ci, Percent{0.5});
  EXPECT_EQ(options_of({"--until-ci=0.25"}).until_ci, Percent{25});
  EXPECT_EQ(options_of({}).until_ci, std::nullopt);
  EXPECT_EQ(options_of({"--until-accuracy=98%"}).until_accuracy, Percent{98});
  EXPECT_EQ(options_of({"--until-accuracy=100%"}).until_accuracy, Percent{100});
  EXPECT_EQ(options_of({}, {{{"DDPBENCH_UNTIL_ACCURACY", "0.5"}}}).until_accuracy, Percent{50});
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"until_accuracy": "97.1%"})");
  EXPECT_EQ(options_of({"--config=c"}, {{}, {folder.path()}}).until_accuracy, Percent{97.1});
}

TEST(OptionValues, AllGpusIsLeftForTheSupervisorToCount) {
  const Options options = options_of({"--gpus=all"});
  EXPECT_TRUE(options.all_gpus);
  EXPECT_THAT(options.gpus, IsEmpty());
  EXPECT_FALSE(options_of({"--gpus=2"}, {{{"DDPBENCH_GPUS", "all"}}}).all_gpus);
}

TEST(OptionValues, FlagsTakeUnderscoresAndSeparateValues) {
  const Options options =
      options_of({"--batch_size=8", "--threads_per-device", "2", "--ps_update=worker"});
  EXPECT_THAT(options.batch_sizes, ElementsAre(8));
  EXPECT_EQ(options.threads_per_device, 2);
  EXPECT_THAT(options.ps_updates, ElementsAre("worker"));
}

TEST(OptionValues, TheLargestSeedIsKept) {
  EXPECT_EQ(options_of({"--seed=18446744073709551615"}).seed, 18446744073709551615U);
}

TEST(OptionValues, ATimeoutOfZeroMeansNone) { EXPECT_EQ(options_of({"--timeout=0"}).timeout_s, 0); }

TEST(OptionValues, APathMayHoldEqualsSignsAndBeginWithADash) {
  EXPECT_EQ(options_of({"--json=a=b.json"}).json_path, "a=b.json");
  EXPECT_EQ(options_of({"--json", "-x.json"}).json_path, "-x.json");
}

struct BadValue {
  std::string name;
  std::string argument;
  std::string expected;  // part of the message
};

void PrintTo(const BadValue& bad, std::ostream* out) { *out << bad.argument; }

class RefusedValue : public ::testing::TestWithParam<BadValue> {};

TEST_P(RefusedValue, IsNamedWithItsFlagAndWhatIsExpected) {
  const BadValue& bad = GetParam();
  const std::string flag = bad.argument.substr(0, bad.argument.find('='));
  EXPECT_THAT(refusal({bad.argument}), AllOf(HasSubstr(flag), HasSubstr(bad.expected)));
}

INSTANTIATE_TEST_SUITE_P(
    OptionValues, RefusedValue,
    ::testing::Values(
        BadValue{"UnknownStrategy", "--strategy=dpp", R"(got "dpp". Did you mean 'dp'?)"},
        BadValue{"StrategyTwice", "--strategy=ddp,dp,ddp", "ddp is listed twice"},
        BadValue{"EmptyStrategyEntry", "--strategy=ddp,", "one of single, dp, ddp, ps"},
        BadValue{"NoDevices", "--gpus=0", "whole numbers from 1"},
        BadValue{"NegativeDevices", "--gpus=-2", "got -2"},
        BadValue{"DevicesTwice", "--gpus=2,1,2", "2 is listed twice"},
        BadValue{"DevicesAmongAll", "--gpus=all,2", R"(got "all")"},
        BadValue{"EmptyDeviceEntry", "--gpus=1,,2", R"(got "")"},
        BadValue{"FractionOfDevices", "--gpus=1.5", R"(got "1.5")"},
        BadValue{"BatchTwice", "--batch-size=8,8", "8 is listed twice"},
        BadValue{"HalfABatch", "--batch-size=8,1.5", "a whole number from 1"},
        BadValue{"OverlapWord", "--overlap=on,yes", "as a list"},
        BadValue{"WidthWithoutPercent", "--until-ci=2", "a share such as 2%"},
        BadValue{"NoWidth", "--until-ci=0%", "above 0"},
        BadValue{"AccuracyWithoutPercent", "--until-accuracy=98", "a share such as 2%"},
        BadValue{"NoAccuracy", "--until-accuracy=0%", "above 0"},
        BadValue{"MoreThanAll", "--until-accuracy=101%", "to 100%"},
        BadValue{"UnknownOrder", "--order=random", "one of interleaved, sequential"},
        BadValue{"UnknownDevice", "--device=gpu", "one of auto, cpu, cuda"},
        BadValue{"NearBackend", "--backend=glo", "Did you mean 'gloo'?"},
        BadValue{"UnknownPrecision", "--precision=fp33", "Did you mean 'fp32'?"},
        BadValue{"NoBatch", "--batch-size=0", "a whole number from 1"},
        BadValue{"NegativeBatch", "--batch-size=-1", "got -1"},
        BadValue{"BatchWithUnit", "--batch-size=64k", R"(got "64k")"},
        BadValue{"NoGlobalBatch", "--global-batch-size=0", "a whole number from 1"},
        BadValue{"NegativeEpochs", "--epochs=-1", "a whole number from 0"},
        BadValue{"NoSteps", "--steps=0", "a whole number from 1"},
        BadValue{"NegativeWarmup", "--warmup-steps=-1", "a whole number from 0"},
        BadValue{"NoRepetitions", "--repetitions=0", "a whole number from 1"},
        BadValue{"NegativeSeed", "--seed=-1", R"(got "-1")"},
        BadValue{"SeedBeyondWords", "--seed=18446744073709551616", "a whole number from 0"},
        BadValue{"NoThreads", "--threads-per-device=0", "a whole number from 1"},
        BadValue{"NoRate", "--lr=0", "a number above 0"},
        BadValue{"RateThatIsNoNumber", "--lr=nan", "a number above 0, got nan"},
        BadValue{"RateInWords", "--lr=small", R"(got "small")"},
        BadValue{"FullMomentum", "--momentum=1", "a number from 0 below 1"},
        BadValue{"UnknownOptimizer", "--optimizer=rmsprop", "one of sgd, adam, adamw"},
        BadValue{"NearOptimizer", "--optimizer=adan", "Did you mean 'adam'?"},
        BadValue{"FullBeta", "--beta2=1", "a number above 0 below 1"},
        BadValue{"NoEpsilon", "--epsilon=0", "a number from 1e-30"},
        BadValue{"UnknownSchedule", "--lr-schedule=cosin", "Did you mean 'cosine'?"},
        BadValue{"NoStepSize", "--lr-step-size=0", "a whole number from 1"},
        BadValue{"GammaAboveOne", "--lr-gamma=2", "a number above 0 to 1"},
        BadValue{"NegativeRamp", "--lr-warmup-steps=-1", "a whole number from 0"},
        BadValue{"NegativeDecay", "--weight-decay=-0.1", "a number from 0"},
        BadValue{"UnknownScaling", "--lr-scaling=liner", "Did you mean 'linear'?"},
        BadValue{"UnknownLastBatch", "--last-batch=keep", "one of pad, drop"},
        BadValue{"BooleanInWords", "--overlap=yes", "on or off"},
        BadValue{"SwitchInWords", "--quiet=maybe", "on or off"},
        BadValue{"NoBucket", "--bucket-cap-mb=0", "a number above 0"},
        BadValue{"NegativeFirstBucket", "--first-bucket-mb=-1", "a number above 0"},
        BadValue{"NoServers", "--servers=0", "a whole number from 1"},
        BadValue{"NoPass", "--accumulation-steps=0", "expected a whole number from 1"},
        BadValue{"UnknownSync", "--accumulation-sync=once", "last, every"},
        BadValue{"UnknownHook", "--comm-hook=fp8", "expected none, bf16, fp16, int8"},
        BadValue{"HookThatKeepsNothing", "--comm-hook=topk:0.02", "P from 0.025 to 100"},
        BadValue{"HookThatKeepsTooMuch", "--comm-hook=none,topk:101", "--comm-hook=topk:101"},
        BadValue{"UnknownUpdate", "--ps-update=servers", "Did you mean 'server'?"},
        BadValue{"UnknownMode", "--ps-mode=both", "sync, async"},
        BadValue{"NegativeBackups", "--backup-workers=-1", "a whole number from 0"},
        BadValue{"NegativeStaleness", "--max-staleness=-1", "a whole number from 0"},
        BadValue{"NegativeWorkers", "--loader-workers=-1", "a whole number from 0"},
        BadValue{"NegativeVerification", "--verify-steps=-1", "a whole number from 0"},
        BadValue{"NegativeTimeout", "--timeout=-1", "a number from 0"},
        BadValue{"NoValueAtAll", "--json=", "--json needs a value: --json=PATH"}),
    [](const auto& instance) { return instance.param.name; });

// So an entry of a list of runs can leave out the link of the others.
TEST(OptionValues, NoEmulatedLinkCanBeAskedFor) {
  EXPECT_EQ(options_of({"--emulate-link=none"}).emulate_link, "");
  EXPECT_EQ(options_of({"comm", "--emulate-link=none"}).emulate_link, "");
}

TEST(OptionValues, EveryStrategyIsComparedWhereNoneIsGiven) {
  const std::vector<std::string> all = {"single", "dp",    "ddp",      "ps",      "zero1",
                                        "zero2",  "zero3", "localsgd", "pipeline"};
  const TemporaryDirectory folder;
  folder.write("c.json", R"({"batch_size": 8})");
  folder.write("dp.json", R"({"strategy": "dp"})");
  const World world{{}, {folder.path()}};
  EXPECT_EQ(options_of({}).strategies, all);
  EXPECT_EQ(options_of({"--config=c"}, world).strategies, all);
  EXPECT_EQ(options_of({"fit"}).strategies, all);
  EXPECT_THAT(options_of({"--config=dp"}, world).strategies, ElementsAre("dp"));
  EXPECT_THAT(options_of({"tune"}).strategies, ElementsAre("ddp"));
}

// What leaves one file of weights is one run.
TEST(OptionValues, OneStrategyIsTakenWhereOneRunIsMade) {
  EXPECT_THAT(options_of({"--save-model=w.safetensors"}).strategies, ElementsAre("single"));
  EXPECT_THAT(refusal({"--strategy=all", "--save-model=w.safetensors"}), HasSubstr("9 runs"));
}

TEST(OptionValues, AllStandsForEveryStrategy) {
  EXPECT_EQ(options_of({"--strategy=all"}).strategies,
            (std::vector<std::string>{"single", "dp", "ddp", "ps", "zero1", "zero2", "zero3",
                                      "localsgd", "pipeline"}));
  EXPECT_THAT(refusal({"--strategy=all,ddp"}), HasSubstr("ddp is listed twice"));
  EXPECT_THAT(
      refusal({"--strategy=al"}),
      HasSubstr("one of single, dp, ddp, ps, zero1, zero2, zero3, localsgd, pipeline, all"));
}

TEST(OptionValues, WhatOtherProgramsHaveIsRefusedWithWhatThereIs) {
  EXPECT_THAT(refusal({"--device=rocm"}), HasSubstr("auto, cpu, cuda"));
}

TEST(OptionValues, NamesOfOtherProgramsSuggestTheOptionsHere) {
  EXPECT_EQ(options_of({"--devices=2"}).gpus, std::vector{2});
  EXPECT_THAT(refusal({"--nproc-per-node=2"}), HasSubstr("Did you mean '--gpus'?"));
  EXPECT_THAT(refusal({"--learning-rate=2"}), HasSubstr("Did you mean '--lr'?"));
}

TEST(OptionValues, AFlagIsNotTakenForTheValueOfTheOneBefore) {
  EXPECT_THAT(refusal({"--json", "--force"}), HasSubstr("--json needs a value"));
  EXPECT_THAT(refusal({"--gpus"}), HasSubstr("--gpus needs a value: --gpus=LIST|all"));
}

TEST(OptionValues, AFlagGivenTwiceIsRefused) {
  EXPECT_THAT(refusal({"--epochs=1", "--epochs=2"}), HasSubstr("--epochs is given 2 times"));
  EXPECT_THAT(refusal({"--strategy=dp", "--strategy=ddp"}), HasSubstr("with commas"));
  EXPECT_THAT(refusal({"--quiet", "--quiet"}), HasSubstr("--quiet is given 2 times"));
}

TEST(OptionValues, AnUnknownFlagNamesTheNearest) {
  EXPECT_THAT(refusal({"--gpu=2"}), AllOf(HasSubstr("--gpu:"), HasSubstr("'--gpus'")));
  EXPECT_THAT(refusal({"--batchsize", "8"}), HasSubstr("'--batch-size'"));
  EXPECT_THAT(refusal({"--frobnicate"}),
              AllOf(HasSubstr("--frobnicate: unknown option"), Not(HasSubstr("Did you mean"))));
  EXPECT_THAT(refusal({"-x"}), HasSubstr("-x: unknown option"));
  EXPECT_THAT(refusal({"--out=x.json"}), HasSubstr("'--json'"));
  EXPECT_THAT(refusal({"--world_size=2"}), HasSubstr("'--gpus'"));
  EXPECT_THAT(refusal({"--arch=resnet18"}), HasSubstr("'--model'"));
}

TEST(OptionValues, NetworkAndDataSetAreOptions) {
  const Options options = options_of({"--model=resnet18", "--dataset=synthetic"});
  EXPECT_EQ(options.model, "resnet18");
  EXPECT_EQ(options.dataset, "synthetic");
}

TEST(OptionValues, ANetworkThatIsTakenForAConfigurationIsToldHow) {
  const std::string configs = std::string(DDPBENCH_TEST_SOURCE_DIR) + "/configs";
  for (const char* config : {"--config=resnet18", "--config=resnet18.json"}) {
    EXPECT_THAT(refusal({config}, {{}, {configs}}),
                HasSubstr("resnet18 is a network: --model=resnet18"));
  }
}

TEST(OptionValues, AStrayArgumentSaysHowListsAreWritten) {
  EXPECT_THAT(refusal({"--gpus", "1", "2"}),
              AllOf(HasSubstr("unexpected argument '2'"), HasSubstr("--gpus=1,2,4")));
}

TEST(OptionValues, AnUnknownVariableNamesTheNearest) {
  EXPECT_THAT(refusal({}, {{{"DDPBENCH_EPOCH", "2"}}}),
              AllOf(HasSubstr("DDPBENCH_EPOCH:"), HasSubstr("'DDPBENCH_EPOCHS'")));
  EXPECT_THAT(refusal({}, {{{"DDPBENCH_XYZ", "2"}}}), Not(HasSubstr("Did you mean")));
  EXPECT_THAT(refusal({}, {{{"DDPBENCH_HELP", "on"}}}), HasSubstr("unknown variable"));
}

TEST(OptionValues, VariablesOfAKubernetesServiceAreIgnoredWithANote) {
  const World world{{{"DDPBENCH_SERVICE_HOST", "10.0.0.7"},
                     {"DDPBENCH_PORT", "tcp://10.0.0.7:80"},
                     {"DDPBENCH_PORT_80_TCP_ADDR", "10.0.0.7"},
                     {"DDPBENCH_X_PORT_80_TCP", "tcp://10.0.0.8:80"},
                     {"DDPBENCH_X_SERVICE_HOST", "10.0.0.8"}}};
  EXPECT_THAT(parse({}, world).notes,
              testing::ElementsAre("ignored, as variables of a Kubernetes Service: DDPBENCH_PORT, "
                                   "DDPBENCH_PORT_80_TCP_ADDR, DDPBENCH_SERVICE_HOST, "
                                   "DDPBENCH_X_PORT_80_TCP, DDPBENCH_X_SERVICE_HOST"));
}

TEST(OptionValues, AWrongVariableIsNamedWithItsValue) {
  EXPECT_THAT(refusal({}, {{{"DDPBENCH_GPUS", "0"}}}),
              AllOf(HasSubstr("DDPBENCH_GPUS"), HasSubstr("got 0")));
}

TEST(OptionValues, VariablesOfTheJobAndOfOthersAreLeftAlone) {
  const World world{{{"DDPBENCH_JOB_SECRET", "x"},
                     {"DDPBENCH_LAUNCHER", "x"},
                     {"DDPBENCH_RUN_FD", "3"},
                     {"DDPBENCH_PRESET", "cpu-release"},
                     {"DDPBENCHMARK", "x"},
                     {"PATH", "/bin"}}};
  EXPECT_EQ(options_of({}, world), options_of({}));
}

TEST(OptionValues, ThatAreNotUtf8AreRefused) {
  EXPECT_THAT(refusal({"--json=\x97.json"}), AllOf(HasSubstr("--json"), HasSubstr("UTF-8")));
}

}  // namespace
}  // namespace ddpbench::bench
