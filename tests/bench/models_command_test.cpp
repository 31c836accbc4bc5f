// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench models`: built-in networks and files, in every format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using testing::AllOf;
using testing::HasSubstr;

class ModelsCommand : public testing::Test {
 protected:
  Program program;
};

TEST_F(ModelsCommand, ShowsAllBuiltInNetworks) {
  const auto result = program.run({"models"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("simple_cnn"), HasSubstr("lenet5"), HasSubstr("cifar_cnn"),
                    HasSubstr("421642"), HasSubstr("1.69"), HasSubstr("B/FLOP")));
}

TEST_F(ModelsCommand, CountsWhatIsKnownOfSimpleCnn) {
  const auto result = program.run({"models", "simple_cnn", "--format=json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json networks = json::parse(result.out)["networks"];
  ASSERT_EQ(networks.size(), 1U);
  const json& network = networks[0];
  EXPECT_EQ(network["name"], "simple_cnn");
  EXPECT_EQ(network["input"], "[1, 28, 28]");
  EXPECT_EQ(network["outputs"], 10);
  EXPECT_EQ(network["parameters"], 421642);
  EXPECT_DOUBLE_EQ(network["gradient_mb"], 1.686568);
  // 2 x (28 x 28 x 32 x 9 + 14 x 14 x 64 x 288 + 3136 x 128 + 1280)
  EXPECT_DOUBLE_EQ(network["forward_gflop_per_sample"], 0.008482304);
  // Twice that again for gradients, but those of the images.
  EXPECT_DOUBLE_EQ(network["step_gflop_per_sample"], 3 * 0.008482304 - 0.000451584);
  EXPECT_DOUBLE_EQ(network["activation_mb_per_sample"], 0.188712);
  EXPECT_NEAR(network["gradient_bytes_per_flop"], 1.686568 / 24.995328, 1e-12);
}

TEST_F(ModelsCommand, TakesFilesInTheOrderGiven) {
  program.write("own.json", R"({"name": "own", "input": [2, 3, 3], "layers": [
      {"name": "fc", "type": "linear", "out_features": 4}]})");
  const auto result = program.run({"models", "own.json", "lenet5", "--format=csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\nown,own.json,\"[2, 3, 3]\",4,76,0.000304,"));
  EXPECT_LT(result.out.find("own.json"), result.out.find("lenet5"));
}

TEST_F(ModelsCommand, CountsWhatIsTrained) {
  program.write("own.json", R"({"name": "own", "input": [2, 3, 3], "layers": [
      {"name": "c", "type": "conv2d", "out_channels": 4, "kernel": 1, "trainable": false},
      {"name": "fc", "type": "linear", "out_features": 4}]})");
  const auto result = program.run({"models", "own.json", "simple_cnn", "--format=json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json networks = json::parse(result.out)["networks"];
  EXPECT_EQ(networks[0]["parameters"], 12 + 148);
  EXPECT_EQ(networks[0]["trainable_parameters"], 148);
  EXPECT_DOUBLE_EQ(networks[0]["gradient_mb"], 4 * 148e-6);
  EXPECT_EQ(networks[1]["trainable_parameters"], 421642);
}

TEST_F(ModelsCommand, IsMarkdownToo) {
  const auto result = program.run({"models", "lenet5", "--format=markdown"});
  EXPECT_THAT(result.out, AllOf(HasSubstr("| network | input |"), HasSubstr("| lenet5 |")));
}

TEST_F(ModelsCommand, RefusesWhatItDoesNotKnow) {
  const auto unknown = program.run({"models", "simple_cn"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'simple_cnn'"));
  const auto format = program.run({"models", "--format=xml"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_THAT(format.err, AllOf(HasSubstr("models: --format"), HasSubstr("markdown")));
  program.write("broken.json", R"({"name": "b", "input": [1, 4, 4], "layers": [
      {"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 9}]})");
  const auto broken = program.run({"models", "broken.json"});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("broken.json at /layers/0"));
}

}  // namespace
}  // namespace ddpbench
