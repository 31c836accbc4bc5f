// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of a network with frozen layers, before and between those that are trained.
#include <gtest/gtest.h>

#include <map>

#include "kernels/nn/safetensors.h"
#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;

constexpr std::int64_t kFrozen = 4 * 9 + 4 + 8 + 8, kTrained = 8 * 36 + 8 + 32 * 10 + 10;
constexpr std::int64_t kHidden = 8 * 36 * 32 + 32;  // frozen, too

class FrozenProgram : public testing::Test {
 protected:
  FrozenProgram() {
    program.write("frozen.json", R"({"name": "frozen", "input": [1, 28, 28],
      "blocks": {"back": {"layers": [
        {"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2},
        {"name": "relu", "type": "relu"}]}},
      "layers": [
        {"name": "back", "block": "back", "trainable": false},
        {"name": "conv", "type": "conv2d", "out_channels": 8, "kernel": 3, "stride": 2},
        {"name": "norm", "type": "batch_norm2d", "trainable": false},
        {"name": "hidden", "type": "linear", "out_features": 32, "trainable": false},
        {"name": "squash", "type": "tanh"},
        {"name": "head", "type": "linear", "out_features": 10}]})");
    json config = json::parse(test::small_config({.steps = 8}));
    config["model"] = program.path("frozen.json");
    program.write("lenet.json", config.dump());
  }
  json run(const std::string& strategy, std::vector<std::string> more) {
    more.emplace_back("--force");
    const auto result = program.run(small_run(strategy, more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return program.report()["runs"][0];
  }
  // By their names.
  std::map<std::string, std::vector<float>> saved() const {
    std::map<std::string, std::vector<float>> tensors;
    for (const nn::NamedTensor& tensor : nn::read_safetensors(program.path("m.safetensors"))) {
      tensors[tensor.name] = tensor.values;
    }
    return tensors;
  }
  Program program;
};

TEST_F(FrozenProgram, IsVerifiedWithEveryStrategyAndSendsTrainedGradientsAlone) {
  for (const std::vector<std::string>& strategy : std::vector<std::vector<std::string>>{
           {"single", "--gpus=1"},
           {"dp", "--gpus=3"},
           {"ddp", "--gpus=2", "--bucket-cap-mb=0.001", "--first-bucket-mb=0.001"},
           {"zero1", "--gpus=2", "--bucket-cap-mb=0.001", "--first-bucket-mb=0.001"},
           {"zero3", "--gpus=2", "--unit-mb=0.001"},
           {"ps", "--gpus=2", "--servers=2"},
           {"ps", "--gpus=2", "--ps-update=worker"}}) {
    std::vector<std::string> options(strategy.begin() + 1, strategy.end());
    options.insert(options.end(),
                   {"--verify-steps=5", "--lr=0.05", "--momentum=0.9", "--weight-decay=0.1"});
    const json of_run = run(strategy[0], options);
    SCOPED_TRACE(strategy[0]);
    EXPECT_EQ(of_run["verification"]["status"], strategy[0] == "single" ? "reference" : "passed");
    EXPECT_EQ(of_run["parameters"], kTrained);
    const json memory = of_run["devices"][0]["memory"]["by_category_bytes"];
    const auto gradients = memory["gradients"].get<std::int64_t>();
    EXPECT_GE(gradients, 4 * kTrained);
    EXPECT_LT(gradients, 4 * kHidden);
    EXPECT_GE(memory["weights"].get<std::int64_t>() - gradients, 4 * (kFrozen + kHidden));
  }
}

TEST_F(FrozenProgram, KeepsItsFrozenWeightsInTheFileAsTheyWere) {
  run("single", {"--lr=1e-30", "--save-model=m.safetensors"});
  const auto start = saved();
  for (const char* strategy :
       {"single", "dp", "ddp", "ps", "zero1", "zero2", "zero3", "localsgd"}) {
    run(strategy, {"--gpus=2", "--lr=0.05", "--momentum=0.9", "--weight-decay=0.1",
                   "--save-model=m.safetensors"});
    const auto trained = saved();
    ASSERT_EQ(trained.size(), start.size());
    for (const auto& [name, values] : start) {
      const bool is_trained = name.starts_with("conv.") || name.starts_with("head.") ||
                              name.starts_with("norm.running_");
      SCOPED_TRACE(std::string(strategy) + " " + name);
      if (name.ends_with("tracked")) continue;
      EXPECT_EQ(trained.at(name) != values, is_trained);
    }
  }
  run("ddp", {"--gpus=2", "--load-model=m.safetensors", "--verify-steps=2"});
}

}  // namespace
}  // namespace ddpbench::bench
