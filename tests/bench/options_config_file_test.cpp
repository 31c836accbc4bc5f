// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finding and reading configuration files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/options_test_support.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A folder with one configuration, and what parsing it gives.
class ConfigFile : public ::testing::Test {
 protected:
  Options options(const std::string& content) {
    folder_.write("c.json", content);
    return options_of({"--config=c"}, world_);
  }
  std::string refused(const std::string& content) {
    folder_.write("c.json", content);
    return refusal({"--config=c"}, world_);
  }

  TemporaryDirectory folder_;
  World world_{{}, {folder_.path()}};
};

TEST_F(ConfigFile, IsFoundByPathByNameAndByFileName) {
  const std::string path = folder_.write("c.json", R"({"epochs": 7})");
  for (const std::string& name : {path, std::string("c"), std::string("c.json")})
    EXPECT_EQ(options_of({"--config=" + name}, world_).config_path, path);
}

TEST_F(ConfigFile, OfTheFirstDirectoryIsTaken) {
  folder_.write("first/c.json", R"({"epochs": 7})");
  folder_.write("second/c.json", R"({"epochs": 8})");
  const World world{{}, {folder_.path() + "/first", folder_.path() + "/second"}};
  EXPECT_EQ(options_of({"--config=c"}, world).epochs, 7);
}

TEST_F(ConfigFile, ThatIsNotThereIsNamedWithWhereItWasLookedForAndNearNames) {
  folder_.write("mnist.json", "{}");
  folder_.write("smoke.json", "{}");
  EXPECT_THAT(refusal({"--config=minst.json"}, world_),
              AllOf(HasSubstr("'minst.json'"), HasSubstr("Did you mean 'mnist'?"),
                    HasSubstr("here and in " + folder_.path()), HasSubstr("mnist, smoke")));
  EXPECT_THAT(refusal({"--config=x"}, {}), HasSubstr("Known names: none"));
}

TEST_F(ConfigFile, OfAFolderIsAmongTheKnownNames) {
  folder_.write("mnist.json", "{}");
  folder_.write("tutorial/mnist-notebook.json", "{}");
  folder_.write("models/lenet.json", "{}");
  folder_.write("schema/config.json", "{}");
  EXPECT_THAT(refusal({"--config=tutorial/mnist-notebok.json"}, world_),
              AllOf(HasSubstr("Did you mean 'tutorial/mnist-notebook'?"),
                    HasSubstr("Known names: mnist, tutorial/mnist-notebook.")));
  EXPECT_THAT(refusal({"--config=elsewhere/mnits"}, world_), HasSubstr("Did you mean 'mnist'?"));
}

TEST_F(ConfigFile, SetsOptionsAndItsOwnKeys) {
  const Options read = options(R"({
    "$schema": "x", "comment": "y",
    "strategy": ["ddp", "ps"], "gpus": [1, 2], "model": "lenet5", "bucket_cap_mb": 2.5,
    "dataset": {"name": "fashion", "on_missing": "error", "mean": -0.5, "std": 2},
    "optimizer": {"name": "sgd", "lr": 0.5, "momentum": 0, "weight_decay": 0.1},
    "overlap": "off", "force": true, "inject": "sum"})");
  EXPECT_THAT(read.strategies, ElementsAre("ddp", "ps"));
  EXPECT_THAT(read.gpus, ElementsAre(1, 2));
  EXPECT_EQ(read.model, "lenet5");
  EXPECT_THAT(read.bucket_caps_mb, ElementsAre(2.5));
  EXPECT_EQ(read.dataset, "fashion");
  EXPECT_EQ(read.on_missing, "error");
  EXPECT_THAT(read.dataset_mean.values, ElementsAre(-0.5));
  EXPECT_THAT(read.dataset_std.values, ElementsAre(2));
  EXPECT_FALSE(read.augment);
  EXPECT_EQ(read.lr, 0.5);
  EXPECT_EQ(read.momentum, 0);
  EXPECT_EQ(read.weight_decay, 0.1);
  EXPECT_THAT(read.overlaps, ElementsAre(false));
  EXPECT_TRUE(read.force);
  EXPECT_EQ(read.injections.size(), 1U);
}

TEST_F(ConfigFile, NamesItsNetworkFromWhereItLies) {
  folder_.write("mine/nets/small.json", "{}");
  folder_.write("mine/c.json", R"({"model": "nets/small.json"})");
  EXPECT_EQ(options_of({"--config=mine/c"}, world_).model,
            folder_.path() + "/mine/nets/small.json");
  folder_.write("c.json", R"({"model": "nets/small.json"})");
  EXPECT_EQ(options_of({"--config=c"}, world_).model, "nets/small.json") << "not beside it";
  EXPECT_EQ(options_of({"--config=mine/c", "--model=nets/x.json"}, world_).model, "nets/x.json");
}

TEST_F(ConfigFile, NumbersOfItsDataSetAreNotThoseOfAnother) {
  folder_.write("c.json", R"({"dataset": {"name": "mnist", "mean": 0.1307, "std": 0.3081}})");
  EXPECT_EQ(options_of({"--config=c", "--dataset=fashion"}, world_).dataset_mean, PerChannel{});
  EXPECT_EQ(options_of({"--config=c", "--dataset=fashion"}, world_).dataset_std, PerChannel{});
  EXPECT_EQ(options_of({"--config=c"}, world_).dataset_mean, PerChannel{{0.1307}});
}

TEST_F(ConfigFile, TakesOneValueForAListOfOne) {
  const Options read = options(R"({"strategy": "ddp", "gpus": 2, "lr": 0.5})");
  EXPECT_THAT(read.strategies, ElementsAre("ddp"));
  EXPECT_THAT(read.gpus, ElementsAre(2));
  EXPECT_EQ(read.lr, 0.5);
  EXPECT_TRUE(options(R"({"gpus": "all"})").all_gpus);
}

struct BadFile {
  std::string name, content;
  std::vector<std::string> expected;
};

void PrintTo(const BadFile& bad, std::ostream* out) { *out << bad.content; }

class RefusedFile : public ConfigFile, public ::testing::WithParamInterface<BadFile> {};

TEST_P(RefusedFile, IsNamedWithThePlaceAndWhatIsWrong) {
  const std::string message = refused(GetParam().content);
  EXPECT_THAT(message, HasSubstr(folder_.path() + "/c.json: "));
  for (const std::string& part : GetParam().expected) EXPECT_THAT(message, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(
    ConfigFile, RefusedFile,
    ::testing::Values(
        BadFile{"NoJson", "{\n  \"epochs\": }", {"not valid JSON", "line 2, column 13"}},
        BadFile{"EmptyFile", "", {"it is empty"}},
        BadFile{"NoObject", "[1]", {"expected a JSON object, got array"}},
        BadFile{"KeyTwice", R"({"epochs": 1, "epochs": 2})", {R"("epochs" is there twice)"}},
        BadFile{
            "NestedKeyTwice", R"({"optimizer": {"lr": 1, "lr": 2}})", {R"("lr" is there twice)"}},
        BadFile{"UnknownKey", R"({"batchsize": 1})", {"/batchsize: unknown key", "'/batch_size'"}},
        BadFile{"UnknownNestedKey",
                R"({"optimizer": {"momentun": 1}})",
                {"/optimizer/momentun: unknown key", "'/optimizer/momentum'"}},
        BadFile{"KeyOfAnObject", R"({"on_missing": "error"})", {"'/dataset/on_missing'"}},
        BadFile{"NearObject", R"({"optimiser": {"lr": 1}})", {"/optimiser/lr"}},
        BadFile{"DashesInKey", R"({"batch-size": 1})", {"/batch-size", "'/batch_size'"}},
        BadFile{"DotsInKey", R"({"optimizer.lr": 1})", {"/optimizer.lr: unknown key"}},
        BadFile{"SlashInKey", R"({"optimizer/lr": 1})", {"/optimizer~1lr: unknown key"}},
        BadFile{"FlagThatIsNoKey", R"({"config": "x"})", {"/config", "--config can only be given"}},
        BadFile{"Command",
                R"({"remote_shell": "sh -c date"})",
                {"/remote_shell", "--remote-shell can only be given as a flag or variable"}},
        BadFile{"Program", R"({"remote_program": "/tmp/x"})", {"--remote-program can only be"}},
        BadFile{
            "CommandInARun", R"({"runs": [{"launcher_args": "x"}]})", {"/runs/0/launcher_args"}},
        BadFile{"CommandsArguments", R"({"launcher_args": "x"})", {"--launcher-args can only be"}},
        BadFile{"ObjectForValue", R"({"epochs": {"n": 1}})", {"/epochs: expected a value"}},
        BadFile{"EmptyObjectForValue",
                R"({"repetitions": {}})",
                {"/repetitions", "a whole number from 1", "{}"}},
        BadFile{"ValueForObject",
                R"({"dataset": "mnist"})",
                {"/dataset: expected an object", R"("name")", R"(got "mnist")"}},
        BadFile{"TextForNumber", R"({"epochs": "2"})", {"/epochs", R"(got "2")"}},
        BadFile{"FractionForWhole", R"({"epochs": 2.5})", {"/epochs", "got 2.5"}},
        BadFile{"NumberBeyondInt", R"({"verify_steps": 99999999999})", {"/verify_steps"}},
        BadFile{"NullForNumber", R"({"epochs": null})", {"/epochs", "got null"}},
        BadFile{
            "TextForBoolean", R"({"overlap": "yes"})", {"/overlap", "true or false", R"("yes")"}},
        BadFile{"EmptyList", R"({"gpus": []})", {"/gpus", "got []"}},
        BadFile{"MixedList", R"({"gpus": [1, "all"]})", {"/gpus", R"(got "all")"}},
        BadFile{"NoDeviation", R"({"dataset": {"std": 0}})", {"/dataset/std", "a number above 0"}},
        BadFile{"EmptyModel", R"({"model": ""})", {"/model", "not empty"}},
        BadFile{"UnknownOptimizer",
                R"({"optimizer": {"name": "lamb"}})",
                {"/optimizer/name", "one of sgd, adam, adamw"}},
        BadFile{"OptimizerAsText",
                R"({"optimizer": "adam"})",
                {"/optimizer: expected an object", R"(got "adam")"}},
        BadFile{"SameOptionTwice",
                R"({"lr": 1, "optimizer": {"lr": 1}})",
                {"/lr", "/optimizer/lr", "set the same option"}},
        BadFile{"BadInjection", R"({"inject": ["sum", "kill"]})", {"/inject", "kill needs rank"}}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(ConfigFile, IsNoFolder) {
  EXPECT_THAT(refusal({"--config=" + folder_.path()}, {}), HasSubstr("that is a directory"));
}

TEST_F(ConfigFile, IsBoundedInSizeAndDepthAndNumbers) {
  EXPECT_THAT(refused("{\"model\": \"" + std::string(1 << 20, 'm') + "\"}"),
              AllOf(HasSubstr("c.json: larger than 1 MiB"), Not(HasSubstr("mmm"))));
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{\"a\":";
  EXPECT_THAT(refused(nested),
              AllOf(HasSubstr("c.json: /a/a/a"), HasSubstr("nested deeper than 16 levels")));
  EXPECT_THAT(refused(R"({"lr": 1e999})"), AllOf(HasSubstr("not valid JSON"), HasSubstr("1e999")));
  EXPECT_THAT(refused(std::string("{}\0{", 4)), HasSubstr("line 1, column 3: a NUL byte"));
}

TEST_F(ConfigFile, SuggestsNothingFarAway) {
  EXPECT_THAT(refused(R"({"frobnicate": 1})"), Not(HasSubstr("Did you mean")));
}

}  // namespace
}  // namespace ddpbench::bench
