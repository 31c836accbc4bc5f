// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs of networks whose description says their loss: verified with every strategy, alike on
// any number of devices, for images and for maps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/bench/program.h"

namespace ddpbench::bench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;

// An image in, ten classes out, of which the loss ignores one.
constexpr const char* kClassifier = R"({"name": "smoothed", "input": [1, 28, 28], "layers": [
  {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2},
  {"name": "relu1", "type": "relu"},
  {"name": "head", "type": "linear", "out_features": 10}],
  "loss": {"type": "cross_entropy", "label_smoothing": 0.1, "ignore_index": 3}})";

// Convolutions only: a class for every second pixel.
constexpr const char* kMap = R"({"name": "map", "input": [3, 16, 12], "layers": [
  {"name": "conv1", "type": "conv2d", "out_channels": 8, "kernel": 7, "padding": 3, "stride": 2},
  {"name": "relu1", "type": "relu"},
  {"name": "conv2", "type": "conv2d", "out_channels": 8, "kernel": 3, "padding": 1},
  {"name": "relu2", "type": "relu"},
  {"name": "head", "type": "conv2d", "out_channels": 4, "kernel": 1}],
  "loss": {"ignore_index": 255}})";

// A second head that leaves the trunk early.
constexpr const char* kHeads = R"({"name": "heads", "input": [1, 28, 28], "layers": [
  {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "stride": 2},
  {"name": "relu1", "type": "relu"},
  {"name": "early", "type": "linear", "out_features": 10},
  {"name": "conv2", "type": "conv2d", "inputs": ["relu1"], "out_channels": 8, "kernel": 3},
  {"name": "relu2", "type": "relu"},
  {"name": "head", "type": "linear", "out_features": 10}],
  "loss": {"ignore_index": 3},
  "auxiliary": [{"output": "early", "weight": 0.3, "loss": {"label_smoothing": 0.1}}]})";

class DescribedLoss : public testing::Test {
 protected:
  void use(const std::string& network, const json& dataset = nullptr, int steps = 8) {
    program.write("network.json", network);
    json config = json::parse(test::small_config({.steps = steps}));
    config["model"] = program.path("network.json");
    if (dataset.is_null()) {
      config.erase("dataset");
    } else {
      config["dataset"] = dataset;
    }
    program.write("lenet.json", config.dump());
  }
  json run_all(const std::string& strategies, const std::vector<std::string>& more) {
    const auto result = program.run(small_run(strategies, more));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    said = result.out;
    return program.report()["runs"];
  }
  void expect_verified() {
    const json runs = run_all("dp,ddp,ps,zero2", {"--gpus=3", "--verify-steps=10", "--lr=0.05"});
    ASSERT_EQ(runs.size(), 4u);
    for (const json& run : runs) {
      EXPECT_EQ(run["verification"]["status"], "passed") << run["strategy"];
      EXPECT_LT(run["verification"]["tolerance"], 0.05);
    }
  }
  // A mean of the devices' means would weigh labels unequally: other losses from the second step
  // on.
  void expect_alike_on_any_number_of_devices() {
    const json runs = run_all("single,dp,ddp,ps", {"--gpus=2,4", "--global-batch-size=24",
                                                   "--verify-steps=0", "--lr=0.05"});
    ASSERT_EQ(runs.size(), 7u);
    const json single = runs[0]["epochs"][0];
    EXPECT_EQ(single["samples"], 8 * 24);
    for (const json& run : runs) {
      const json& epoch = run["epochs"][0];
      EXPECT_EQ(epoch["samples"], single["samples"]);
      EXPECT_NEAR(epoch["train_loss"].get<double>(), single["train_loss"].get<double>(), 1e-5)
          << run["strategy"] << ' ' << run["world_size"];
      EXPECT_NEAR(epoch["test_accuracy"].get<double>(), single["test_accuracy"].get<double>(),
                  1e-3);
      ASSERT_EQ(epoch.contains("test_miou"), single.contains("test_miou"));
      if (epoch.contains("test_miou")) {
        EXPECT_NEAR(epoch["test_miou"].get<double>(), single["test_miou"].get<double>(), 1e-3);
      }
    }
  }
  Program program;
  std::string said;
};

TEST_F(DescribedLoss, OfImagesIsVerifiedWithEveryStrategy) {
  use(kClassifier);
  expect_verified();
}

TEST_F(DescribedLoss, OfImagesTrainsAlikeOnAnyNumberOfDevices) {
  use(kClassifier);
  expect_alike_on_any_number_of_devices();
}

TEST_F(DescribedLoss, WithAnAuxiliaryOutputIsVerifiedWithEveryStrategy) {
  use(kHeads);
  expect_verified();
}

TEST_F(DescribedLoss, WithAnAuxiliaryOutputTrainsAlikeOnAnyNumberOfDevices) {
  use(kHeads);
  expect_alike_on_any_number_of_devices();
}

TEST_F(DescribedLoss, OfMapsIsVerifiedWithEveryStrategy) {
  use(kMap);
  expect_verified();
  EXPECT_THAT(said, AllOf(HasSubstr("data set: synthetic, as map gives logits of [4, 8, 6]; "
                                    "--dataset=voc2012 takes files"),
                          HasSubstr("in 4 classes with 8 x 6 labels each")));
}

TEST_F(DescribedLoss, OfMapsTrainsAlikeOnAnyNumberOfDevices) {
  use(kMap);
  expect_alike_on_any_number_of_devices();
}

// Guessing the most frequent of 4 classes gives about a third.
TEST_F(DescribedLoss, OfMapsIsLearnt) {
  use(kMap, nullptr, 60);
  const json epoch = run_all("single", {"--batch-size=32", "--verify-steps=0", "--lr=0.1",
                                        "--momentum=0.9"})[0]["epochs"][0];
  EXPECT_GT(epoch["test_accuracy"], 0.5);
  EXPECT_LE(epoch["test_accuracy"], 1);
}

TEST_F(DescribedLoss, OfMapsNeedsADataSetWithMaps) {
  use(R"({"name": "unfinished", "input": [1, 28, 28], "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 10, "kernel": 3}]})",
      {{"name", "mnist"}, {"on_missing", "synthesize"}});
  const auto result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("/output: the network gives logits of [10, 26, 26]"),
                    HasSubstr("676 predictions an image, but mnist has 1 label an image"),
                    HasSubstr("the data set synthetic")));
}

TEST_F(DescribedLoss, OfMapsRefusesImagesThatMove) {
  use(kMap, {{"name", "synthetic"}, {"augment", true}});
  const auto result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("dataset.augment"));
}

// All samples have the label 0.
TEST_F(DescribedLoss, ThatIgnoresAllLabelsIsRefused) {
  use(R"({"name": "nothing", "input": [1, 4, 4], "layers": [
    {"name": "head", "type": "linear", "out_features": 1}], "loss": {"ignore_index": 0}})",
      {{"name", "synthetic"}});
  const auto result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("there is nothing to learn"));
}

}  // namespace
}  // namespace ddpbench::bench
