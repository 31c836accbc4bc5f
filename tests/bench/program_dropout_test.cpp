// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of a network with dropout: verified, and the same on any number of devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/nn/safetensors.h"
#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;

class DroppingProgram : public testing::Test {
 protected:
  DroppingProgram() {
    program.write("dropping.json", R"({"name": "dropping", "input": [1, 28, 28], "layers": [
      {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2},
      {"name": "relu1", "type": "relu"},
      {"name": "drop1", "type": "dropout", "p": 0.2},
      {"name": "hidden", "type": "linear", "out_features": 32},
      {"name": "relu2", "type": "relu"},
      {"name": "drop2", "type": "dropout"},
      {"name": "head", "type": "linear", "out_features": 10}]})");
    json config = json::parse(test::small_config({.steps = 8}));
    config["model"] = program.path("dropping.json");
    program.write("lenet.json", config.dump());
  }
  json run(const std::string& strategy, std::vector<std::string> more) {
    more.emplace_back("--force");
    const auto result = program.run(small_run(strategy, more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return program.report()["runs"][0];
  }
  Program program;
};

// The reference takes the parts of the batch one after the other, with the masks of their places.
TEST_F(DroppingProgram, IsVerifiedWithEveryStrategy) {
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    const json verification =
        run(strategy, {"--gpus=3", "--verify-steps=10", "--lr=0.05"})["verification"];
    EXPECT_EQ(verification["status"], "passed") << strategy;
    EXPECT_LT(verification["tolerance"], 0.05);
  }
}

// At equal global batch the loss of an epoch is that of one device: other masks would change it by
// a tenth. The evaluation drops nothing.
TEST_F(DroppingProgram, TrainsAlikeOnAnyNumberOfDevices) {
  const std::vector<std::string> batch = {"--global-batch-size=24", "--verify-steps=0",
                                          "--lr=0.05"};
  const auto epoch_of = [&](const std::string& strategy, const std::string& devices) {
    std::vector<std::string> options = batch;
    options.push_back(devices);
    return run(strategy, options)["epochs"][0];
  };
  const json single = epoch_of("single", "--gpus=1");
  for (const char* strategy : {"dp", "ddp", "ps"}) {
    for (const char* devices : {"--gpus=2", "--gpus=4"}) {
      const json epoch = epoch_of(strategy, devices);
      EXPECT_NEAR(epoch["train_loss"].get<double>(), single["train_loss"].get<double>(), 1e-5)
          << strategy << ' ' << devices;
      EXPECT_EQ(epoch["test_accuracy"], single["test_accuracy"]);
    }
  }
}

TEST_F(DroppingProgram, LoadsTheWeightsOfAWrappedNetworkAndSaysSo) {
  run("single", {"--save-model=m.safetensors"});
  auto tensors = nn::read_safetensors(program.path("m.safetensors"));
  for (nn::NamedTensor& tensor : tensors) tensor.name = "module." + tensor.name;
  nn::write_safetensors(program.path("wrapped.safetensors"), tensors, true);
  const auto losses_from = [&](const std::string& file) {
    const auto result = program.run(small_run("single", {"--load-model=" + file, "--force"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const bool said = result.out.find("begin with \"module.\"") != std::string::npos;
    EXPECT_EQ(said, file == "wrapped.safetensors") << result.out;
    return program.report()["runs"][0]["epochs"][0]["train_loss"];
  };
  EXPECT_EQ(losses_from("wrapped.safetensors"), losses_from("m.safetensors"));
}

}  // namespace
}  // namespace ddpbench::bench
