// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// DeepLabv3-ResNet101 with a quarter of its channels, on maps of 65 x 65: it computes what the
// reference does, and its mean intersection over union is that of all ranks' predictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/bench/program.h"
#include "tests/datasets/test_images.h"
#include "tests/nn/small_deeplab.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using testing::HasSubstr;

class Segmentation : public testing::Test {
 protected:
  Segmentation() {
    program.environment["XDG_CACHE_HOME"] = program.path("cache");
    program.write("network.json", test::quarter_of_deeplab(65, true));
    data::make_voc([&](const std::string& name, const std::string& contents) {
      std::filesystem::create_directories(std::filesystem::path(program.path(name)).parent_path());
      program.write(name, contents);
    });
  }
  test::ProgramResult run(std::vector<std::string> options) {
    options.insert(options.begin(), {"--model=network.json", "--dataset=voc2012", "--data-dir=.",
                                     "--steps=1", "--warmup-steps=0", "--verify-steps=1",
                                     "--lr=0.1", "--json=report.json", "--force", "--quiet"});
    return program.run(options);
  }
  Program program;
};

// Images of several sizes are padded with labels that the loss ignores, so the ranks have unequal
// numbers of others.
TEST_F(Segmentation, IsVerifiedAndEndsWithAMeanIouOfAllRanks) {
  const auto result =
      run({"--strategy=zero2", "--gpus=2", "--batch-size=2", "--accumulation-steps=2", "--epochs=9",
           "--sync-batch-norm=on", "--until-miou=0.001%"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json run = program.report()["runs"][0];
  EXPECT_EQ(run["verification"]["status"], "passed");
  ASSERT_EQ(run["epochs"].size(), 1u);
  const json& epoch = run["epochs"][0];
  EXPECT_GT(epoch["test_miou"], 0.00001);
  EXPECT_LT(epoch["test_miou"], epoch["test_accuracy"]);
  EXPECT_EQ(run["until_accuracy"]["metric"], "miou");
  EXPECT_EQ(run["until_accuracy"]["train_s"], epoch["time_s"]);
}

TEST_F(Segmentation, RefusesOneSampleADeviceByTheLayerThatNeedsMore) {
  const auto result = run({"--strategy=single", "--batch-size=1"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("layer \"classifier.0.convs.4.2\""));
  EXPECT_THAT(result.err, HasSubstr("use a larger batch"));
}

TEST_F(Segmentation, RefusesAMeanIouOfImages) {
  const auto result = program.run({"--model=lenet5", "--dataset=synthetic", "--until-miou=50%"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("--until-miou=50%: synthetic has one label an image"));
  const auto both = program.run({"--until-miou=50%", "--until-accuracy=50%"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("exclude each other"));
}

}  // namespace
}  // namespace ddpbench::bench
