// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Data sets of whole runs: which one is taken, what is said of it, and augmented images under every
// strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/bench/program.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

json small_network(std::vector<int> input, int classes) {
  return {{"name", "tiny"},
          {"input", std::move(input)},
          {"layers",
           {{{"name", "conv"}, {"type", "conv2d"}, {"out_channels", 4}, {"kernel", 3}},
            {{"name", "relu"}, {"type", "relu"}},
            {{"name", "pool"}, {"type", "max_pool2d"}, {"kernel", 4}},
            {{"name", "fc"}, {"type", "linear"}, {"out_features", classes}}}}};
}

class ProgramData : public testing::Test {
 protected:
  // Writes lenet.json, which small_run names: a few steps of `model` on `dataset`.
  void configure(const std::string& model, const json& dataset) {
    json config = json::parse(test::small_config({.steps = 3}));
    config["model"] = model;
    config.erase("dataset");
    if (!dataset.is_null()) config["dataset"] = dataset;
    program.write("lenet.json", config.dump());
  }
  void write_cifar(int train) { test::write_cifar(program, train); }

  Program program{Program::Digits::none};
};

TEST_F(ProgramData, IsSyntheticAndSaysSoWhereNoKnownDataSetFits) {
  program.write("tiny.json", small_network({3, 20, 24}, 300).dump());
  configure("tiny.json", nullptr);
  const auto result = program.run(small_run("single,dp,ddp,ps", {"--gpus=2"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(
      result.out,
      AllOf(HasSubstr("data set: synthetic, because none of mnist, fashion-mnist, "
                      "cifar10, voc2012 fits tiny, which takes [3, 20, 24] and has 300 outputs"),
            HasSubstr("data: synthetic images of [3, 20, 24] in 300 classes, 60000 to "
                      "train and 10000 to test (seed 1)")));
  const json report = program.report();
  EXPECT_EQ(report["config"]["dataset"]["name"], "synthetic");
  ASSERT_EQ(report["runs"].size(), 4U);
  for (const json& run : report["runs"]) {
    const json& dataset = run["dataset"];
    EXPECT_EQ(dataset["name"], "synthetic");
    EXPECT_EQ(dataset["source"], "synthetic");
    EXPECT_THAT(dataset["note"].get<std::string>(), HasSubstr("synthetic images of [3, 20, 24]"));
    EXPECT_EQ(dataset["augment"], false);
    EXPECT_EQ(run["verification"]["status"], run["strategy"] == "single" ? "reference" : "passed");
  }
}

TEST_F(ProgramData, IsTheKnownDataSetThatFits) {
  configure("lenet5", nullptr);
  const auto result = program.run(small_run("single"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("data: mnist is not in"), HasSubstr("synthetic digits"),
                                Not(HasSubstr("because"))));
  const json report = program.report();
  EXPECT_EQ(report["runs"][0]["dataset"]["name"], "mnist");
  EXPECT_EQ(report["config"]["dataset"]["mean"], 0.1307);
}

// A small MNIST as torchvision lays it down: 40 images to train and 20 to test.
TEST_F(ProgramData, IsFoundWhereTorchvisionPutsIt) {
  test::write_digits(program, "data/MNIST/raw", 40, 20);
  configure("lenet5", nullptr);
  fs::create_directories(program.directory() / "other/FashionMNIST");
  fs::copy(program.directory() / "data/MNIST/raw", program.directory() / "other/FashionMNIST/raw");
  for (const std::string directory : {"data", "data/MNIST/raw"}) {
    const auto result = program.run(
        small_run("single", {"--data-dir=" + directory, "--force", "--verify-steps=0"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("data: mnist from data/MNIST/raw: 40 of the 60000"));
    EXPECT_EQ(program.report()["runs"][0]["dataset"]["source"], "files");
    if (directory == "data") {
      const auto drawn = program.run(
          small_run("single", {"--data-dir=other", "--dataset=mnist", "--dry-run", "--force"}));
      EXPECT_THAT(drawn.out, HasSubstr("data: mnist is not in other; synthetic digits are drawn"));
      const auto unfit = program.run(
          small_run("single", {"--model=resnet18", "--dataset=mnist", "--dry-run", "--force"}));
      EXPECT_THAT(unfit.err, HasSubstr("the network resnet18 takes images of [3, 224, 224], but "
                                       "the data set mnist has [1, 28, 28]; --dataset=auto"));
    }
  }
  const auto listed = program.run({"data", "list", "--data-dir=data"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("40 training and 20 test samples in data/MNIST/raw"),
                                HasSubstr("\nemnist-letters\n")));
  fs::rename(program.directory() / "data/MNIST/raw", program.directory() / "data/digits");
  const auto other = program.run(small_run("single", {"--data-dir=data", "--force"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("data/digits/train-images-idx3-ubyte is not read: put mnist's"));
}

TEST_F(ProgramData, IsSyntheticWhereThatIsAskedFor) {
  configure("lenet5", {{"name", "synthetic"}});
  const auto result = program.run(small_run("single"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("data: synthetic images of [1, 28, 28] in 10 classes"),
                                HasSubstr("synthetic data"), Not(HasSubstr("because"))));
}

TEST_F(ProgramData, SaysThatThereAreFewerSamplesThanPublished) {
  write_cifar(2);
  configure("cifar_cnn", nullptr);
  const auto result = program.run(small_run("single", {"--data-dir=data", "--verify-steps=0"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string words =
      "80 of the 50000 published training samples and 20 of the 10000 published test samples";
  EXPECT_THAT(result.out, HasSubstr("data: cifar10 from data/cifar10: " + words));
  const json dataset = program.report()["runs"][0]["dataset"];
  EXPECT_EQ(dataset["note"], words);
  EXPECT_EQ(dataset["source"], "files");
  EXPECT_EQ(dataset["train_samples"], 80);
}

TEST_F(ProgramData, AugmentedIsVerifiedUnderEveryStrategy) {
  write_cifar(1);
  program.write("tiny.json", small_network({3, 32, 32}, 10).dump());
  double plain_loss = 0;
  for (const bool augment : {false, true}) {
    configure("tiny.json", {{"name", "cifar10"}, {"augment", augment}});
    const auto result =
        program.run(small_run("single,dp,ddp,ps", {"--data-dir=data", "--gpus=2", "--force",
                                                   "--global-batch-size=8", "--verify-steps=4"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    ASSERT_EQ(report["runs"].size(), 4U);
    const double loss = report["runs"][0]["epochs"][0]["train_loss"];
    for (const json& run : report["runs"]) {
      EXPECT_EQ(run["dataset"]["augment"], augment);
      // The same pixels in the same global batches: the losses agree but for rounding.
      EXPECT_NEAR(run["epochs"][0]["train_loss"].get<double>(), loss, 1e-4) << run["strategy"];
    }
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(report["runs"][i]["verification"]["status"], "passed");
    }
    if (augment) {
      EXPECT_GT(std::abs(loss - plain_loss), 1e-3);
      EXPECT_THAT(result.out, HasSubstr("augmented"));
    }
    plain_loss = loss;
  }
}

TEST_F(ProgramData, AugmentedOnTheDeviceIsRefused) {
  configure("lenet5", {{"name", "mnist"}, {"augment", true}});
  const auto result = program.run(small_run("single", {"--residency=device"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--residency=device"), HasSubstr("crops and flips")));
}

TEST_F(ProgramData, NormalisedByAnotherNumberOfChannelsIsRefused) {
  configure("lenet5", {{"name", "mnist"}, {"mean", {0.1, 0.2}}});
  const auto result = program.run(small_run("single"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("dataset.mean has 2 values, but the images of mnist have 1 "
                                    "channel"));
}

TEST_F(ProgramData, DamagedIsNotReplaced) {
  write_cifar(1);
  configure("cifar_cnn", {{"name", "cifar10"}, {"on_missing", "synthesize"}});
  program.write("data/cifar10/data_batch_1.bin", test::cifar_records(2, 1) + "short");
  const auto result = program.run(small_run("single", {"--data-dir=data"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("data/cifar10/data_batch_1.bin: record 2, offset 6151"));
}

TEST_F(ProgramData, IsListedWithWhatCouldBeTrainedOn) {
  write_cifar(1);
  const auto result = program.run({"data", "list", "--data-dir=data"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("cifar-10-binary.tar.gz           not here"),
                    HasSubstr("usable: 40 training and 20 test samples in data/cifar10"),
                    HasSubstr("synthetic\n  drawn in the shape")));
  program.write("data/cifar10/cifar-10-binary.tar.gz", "x");
  EXPECT_THAT(program.run({"data", "list", "--data-dir=data"}).out,
              AllOf(HasSubstr("1 bytes, checksum WRONG"),
                    HasSubstr("usable, but not as published (`ddpbench data fetch cifar10` gets "
                              "those files): 40 training")));
  program.write("data/cifar10/test_batch.bin", "x");
  EXPECT_THAT(program.run({"data", "list", "--data-dir=data"}).out,
              HasSubstr("not usable: data/cifar10/test_batch.bin: record 0"));
  const auto fetch = program.run({"data", "fetch", "synthetic", "--data-dir=data"});
  EXPECT_EQ(fetch.exit_code, 2);
  EXPECT_THAT(fetch.err, HasSubstr("no files to fetch"));
}

// ResNet-20 as published: each strategy with the batch norm of its devices, and with that of all.
TEST_F(ProgramData, TrainsAPublishedNetworkUnderEveryStrategy) {
  write_cifar(1);
  configure("resnet20", {{"name", "cifar10"}, {"on_missing", "error"}});
  for (const char* sync : {"off", "on"}) {
    const auto result = program.run(
        small_run("single,dp,ddp,ps",
                  {"--data-dir=data", "--gpus=2", "--batch-size=4", "--steps=1", "--verify-steps=2",
                   std::string("--sync-batch-norm=") + sync, "--force"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const json report = program.report();
    ASSERT_EQ(report["runs"].size(), 4U);
    for (const json& run : report["runs"]) {
      EXPECT_EQ(run["status"], "ok");
      EXPECT_EQ(run["model"], "resnet20");
      EXPECT_EQ(run["parameters"], 272'474);
      EXPECT_EQ(run["dataset"]["source"], "files");
      const bool single = run["strategy"] == "single";
      EXPECT_EQ(run["verification"]["status"], single ? "reference" : "passed") << run["strategy"];
      EXPECT_EQ(run["strategy_options"].contains("sync_batch_norm"),
                !single && std::string(sync) == "on");
    }
  }
}

}  // namespace
}  // namespace ddpbench
