// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench fit`: the largest batches of whole commands, and that runs agree with them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using testing::AllOf;
using testing::HasSubstr;

class FitCommand : public testing::Test {
 protected:
  FitCommand() { program.write("lenet.json", test::small_config({.steps = 2})); }

  std::map<std::string, json> fits(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"fit", "--config=lenet.json", "--format=json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::map<std::string, json> found;
    document_ = json::parse(result.out, nullptr, false);
    for (const json& row : document_["fits"]) found[row["strategy"]] = row;
    return found;
  }

  void use_network(const std::string& text) {
    program.write("network.json", text);
    json config = json::parse(program.read("lenet.json"));
    config["model"] = "network.json";
    program.write("lenet.json", config.dump());
  }

  void expect_agreement();

  json document_;
  Program program;
};

void FitCommand::expect_agreement() {
  const auto found = fits({"--gpus=2", "--memory-per-device=8MiB", "--verify-steps=0"});
  for (const char* strategy :
       {"single", "dp", "ddp", "ps", "zero1", "zero2", "zero3", "localsgd"}) {
    const json& row = found.at(strategy);
    const int batch = row["batch_per_device"];
    const auto result = program.run(test::small_run(
        strategy, {"--batch-size=" + std::to_string(batch), "--verify-steps=0", "--force"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json device = program.report()["runs"][0]["devices"][0];
    const double peak = device["memory"]["peak_bytes"];
    const double communication = device["memory"]["by_category_bytes"]["communication"];
    const double planned = row["bytes"].get<double>() - row["communication_bytes"].get<double>();
    // Parameters are converted one at a time before the batches are there: the largest has
    // 120 x 400 weights.
    EXPECT_GE(planned, peak - communication) << strategy;
    EXPECT_LE(planned, peak - communication + 192000 + 4096) << strategy;
  }
}

TEST_F(FitCommand, PlansEveryStrategyWithinTheMemoryGiven) {
  const auto found = fits({"--gpus=4", "--memory-per-device=64MiB"});
  ASSERT_EQ(found.size(), 9U);
  for (const auto& [strategy, row] : found) {
    EXPECT_GT(row["batch_per_device"], 8) << strategy;
    EXPECT_EQ(row["global_batch"],
              row["batch_per_device"].get<int>() * (strategy == "single" ? 1 : 4));
    EXPECT_LE(row["bytes"], row["limit_bytes"]) << strategy;
    EXPECT_EQ(row["limit_bytes"], 64 << 20);
    // Nearly full: the next batch may also have other micro-batches, and more scratch memory.
    EXPECT_GT(row["bytes"], 0.9 * (64 << 20)) << strategy;
  }
  // dp's primary device has the whole batch; the reference of the others has it as well.
  EXPECT_EQ(found.at("single")["ended_by"], "the device");
  EXPECT_LT(found.at("dp")["batch_per_device"], found.at("single")["batch_per_device"]);
}

TEST_F(FitCommand, NamesTheLimitThatDpsPrimaryDevicePutsOnAll) {
  const auto found = fits({"--gpus=4", "--memory-per-device=64MiB", "--verify-steps=0"});
  EXPECT_EQ(found.at("dp")["ended_by"], "the primary device");
  EXPECT_LT(found.at("dp")["batch_per_device"], found.at("ddp")["batch_per_device"]);
  EXPECT_EQ(found.at("ddp")["ended_by"], "the device");
  const std::string notes = document_["notes"].dump();
  EXPECT_THAT(notes, AllOf(HasSubstr("dp on 4 devices: the primary device has the whole batch"),
                           HasSubstr("which would take")));
}

TEST_F(FitCommand, FindsMoreInMoreMemoryAndNothingInTooLittle) {
  const auto small = fits({"--gpus=2", "--memory-per-device=32MiB"});
  const auto large = fits({"--gpus=2", "--memory-per-device=128MiB"});
  for (const auto& [strategy, row] : small) {
    EXPECT_GT(large.at(strategy)["batch_per_device"], 3 * row["batch_per_device"].get<int>());
  }
  const auto none = fits({"--gpus=2", "--memory-per-device=4KiB"});
  for (const auto& [strategy, row] : none) EXPECT_EQ(row["batch_per_device"], 0) << strategy;
}

// What is planned is what the devices of a run report.
TEST_F(FitCommand, AgreesWithWhatRunsAllocate) { expect_agreement(); }

// Running statistics, evaluation by them, and what ddp broadcasts of them count too.
TEST_F(FitCommand, AgreesWithWhatRunsOfANetworkWithStateAllocate) {
  use_network(R"({"name": "norm", "input": [1, 28, 28], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 12, "kernel": 5},
      {"name": "norm", "type": "batch_norm2d"},
      {"name": "relu", "type": "relu"},
      {"name": "pool", "type": "max_pool2d", "kernel": 2},
      {"name": "fc", "type": "linear", "out_features": 10}]})");
  expect_agreement();
  for (const auto& [strategy, row] : fits({"--gpus=2", "--memory-per-device=8MiB"}))
    EXPECT_GT(row["state_bytes"], 0) << strategy;
}

// One value a channel has no variance, so that one sample cannot be trained on.
TEST_F(FitCommand, BeginsWithTheFewestSamplesThatCanBeTrainedOn) {
  use_network(R"({"name": "dot", "input": [1, 28, 28], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 8, "kernel": 28},
      {"name": "norm", "type": "batch_norm2d"},
      {"name": "fc", "type": "linear", "out_features": 10}]})");
  for (const auto& [strategy, row] : fits({"--gpus=2", "--memory-per-device=16MiB"})) {
    EXPECT_GT(row["batch_per_device"], 8) << strategy;
    EXPECT_GT(row["bytes_per_sample"], 28 * 28 * sizeof(float)) << strategy;
  }
  for (const auto& [strategy, row] : fits({"--gpus=2", "--memory-per-device=1KiB"})) {
    EXPECT_EQ(row["batch_per_device"], 0) << strategy;
    EXPECT_GT(row["bytes"], 1024) << strategy;
  }
}

// A configuration file may have lists for runs.
TEST_F(FitCommand, PlansEachStrategyOnceForListsThatDecideNoMemory) {
  json config = json::parse(program.read("lenet.json"));
  config["overlap"] = {true, false};
  config["bucket_cap_mb"] = {1, 25};
  config["first_bucket_mb"] = {1, 2};
  config["all_reduce"] = {"ring", "direct"};
  config["batch_size"] = {8, 16};
  program.write("lenet.json", config.dump());
  fits({"--gpus=2", "--memory-per-device=64MiB"});
  EXPECT_EQ(document_["fits"].size(), 9U) << document_["fits"];
}

TEST_F(FitCommand, NamesTheChoicesThatItsRowsDifferIn) {
  const auto found =
      fits({"--gpus=2", "--memory-per-device=64MiB", "--strategy=single,ddp,localsgd",
            "--comm-hook=none,int8", "--outer-momentum=0,0.9"});
  EXPECT_EQ(found.size(), 5U) << document_["fits"];
  EXPECT_TRUE(found.contains("single"));
  EXPECT_GT(found.at("ddp, hook int8")["communication_bytes"],
            found.at("ddp, no hook")["communication_bytes"]);
  EXPECT_GT(found.at("localsgd, outer momentum 0.9")["optimizer_bytes"],
            found.at("localsgd, outer momentum 0")["optimizer_bytes"]);
}

// With few samples the server of eight workers is the fullest, which no sample makes fuller.
TEST_F(FitCommand, TakesASampleFromTheDeviceThatGrows) {
  const json row = fits({"--gpus=8", "--memory-per-device=8MiB", "--verify-steps=0"}).at("ps");
  ASSERT_EQ(row["ended_by"], "the device");
  const double batch = row["batch_per_device"];
  EXPECT_GT(row["bytes_per_sample"].get<double>() * (batch - 1),
            row["activations_bytes"].get<double>() * (1 - 2 / batch));
}

TEST_F(FitCommand, SharesTheHostsMemoryWithoutAGivenOne) {
  program.write("big.json", R"({"name": "big", "input": [3, 224, 224], "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": 64, "kernel": 3, "padding": 1},
      {"name": "pool", "type": "max_pool2d", "kernel": 28},
      {"name": "fc", "type": "linear", "out_features": 10}]})");
  program.write("c.json", R"({"model": "big.json", "verify_steps": 0})");
  const auto result =
      program.run({"fit", "--config=c.json", "--gpus=2", "--strategy=single,ddp", "--format=json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json document = json::parse(result.out);
  EXPECT_THAT(document["caption"].get<std::string>(), HasSubstr("shared by all devices of a run"));
  EXPECT_THAT(document["notes"].dump(), HasSubstr("data set: synthetic"));
  const int single = document["fits"][0]["batch_per_device"],
            ddp = document["fits"][1]["batch_per_device"];
  EXPECT_NEAR(ddp, single / 2.0, 0.05 * single + 9);
  EXPECT_EQ(document["fits"][1]["ended_by"], "all devices together");
}

TEST_F(FitCommand, IsATableByDefault) {
  const auto result =
      program.run({"fit", "--config=lenet.json", "--gpus=2", "--memory-per-device=1GiB"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("largest batch"), HasSubstr("ended by"),
                                HasSubstr("--memory-per-device=1GiB"), HasSubstr("mostly")));
}

TEST_F(FitCommand, RefusesWhatItCannotPlan) {
  const auto memory = program.run({"fit", "--memory-per-device=much"});
  EXPECT_EQ(memory.exit_code, 2);
  EXPECT_THAT(memory.err, HasSubstr("16GiB"));
  const auto batch = program.run({"fit", "--batch-size=8"});
  EXPECT_EQ(batch.exit_code, 2);
  EXPECT_THAT(batch.err, HasSubstr("--batch-size does not apply to `ddpbench fit`"));
  const auto unread = program.run({"--memory-per-device=much", "--dry-run"});
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_THAT(unread.err, HasSubstr("16GiB"));
  const auto run = program.run({"--format=csv"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("but to `ddpbench fit`"));
}

}  // namespace
}  // namespace ddpbench
