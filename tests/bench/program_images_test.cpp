// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole runs on folders of images: verified, decoded once, and refused where a file is damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/bench/program.h"
#include "tests/datasets/test_images.h"

namespace ddpbench {
namespace {

using nlohmann::json;
using test::Program;
using test::small_run;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

std::vector<std::uint8_t> coloured(int pixels, std::initializer_list<int> pixel) {
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < pixels; ++i) bytes.insert(bytes.end(), pixel.begin(), pixel.end());
  return bytes;
}

class ProgramImages : public testing::Test {
 protected:
  ProgramImages() { program.environment["XDG_CACHE_HOME"] = program.path("cache"); }

  void put(const std::string& name, const std::string& contents) const {
    fs::create_directories(fs::path(program.path(name)).parent_path());
    program.write(name, contents);
  }

  // Images of two classes, red and blue ones.
  void put_classes() const {
    for (const std::string split : {"train", "val"}) {
      for (int i = 0; i < 8; ++i) {
        const std::string name = "/" + std::to_string(i) + ".jpg";
        const int height = 20 + i, width = 40 - 3 * i, pixels = height * width;
        put("data/" + split + "/blue" + name,
            data::jpeg_file(height, width, coloured(pixels, {10 * i, 50, 200}), 3));
        put("data/" + split + "/red" + name,
            data::jpeg_file(height, width, coloured(pixels, {200, 50, 10 * i}), 3));
      }
    }
  }

  void configure(const json& layers, const json& loss, const json& dataset, int steps) const {
    program.write(
        "network.json",
        json{{"name", "own"}, {"input", {3, 64, 64}}, {"layers", layers}, {"loss", loss}}.dump());
    json config = json::parse(test::small_config({.steps = steps}));
    config["model"] = "network.json";
    config["dataset"] = dataset;
    program.write("lenet.json", config.dump());
  }
  void configure_classes() const {
    configure({{{"name", "conv"}, {"type", "conv2d"}, {"out_channels", 4}, {"kernel", 3}},
               {{"name", "relu"}, {"type", "relu"}},
               {{"name", "fc"}, {"type", "linear"}, {"out_features", 2}}},
              {{"type", "cross_entropy"}}, {{"name", "image-folder"}, {"crop", 16}}, 4);
  }

  Program program;
};

TEST_F(ProgramImages, OfClassesTrainAlikeAndAreDecodedOnce) {
  put_classes();
  configure_classes();
  const std::vector<std::string> arguments =
      small_run("single,dp,ddp", {"--gpus=2", "--data-dir=data", "--lr=0.05", "--force"});
  const auto first = program.run(arguments);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, AllOf(HasSubstr("data: image-folder from data"),
                               HasSubstr("0 of 32 images decoded into ")));
  for (const json& run : program.report()["runs"]) {
    EXPECT_EQ(run["verification"]["status"], run["strategy"] == "single" ? "reference" : "passed");
    EXPECT_EQ(run["dataset"]["test_samples"], 16);
    EXPECT_GT(run["epochs"][0]["test_accuracy"], 0.9);
  }
  const auto second = program.run(arguments);
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, Not(HasSubstr("decoded into")));
}

TEST_F(ProgramImages, OfVocAreVerifiedWithUnequalNumbersOfValidPixels) {
  data::make_voc([&](const std::string& name, const std::string& contents) {
    put("data/VOC2012/" + name, contents);
  });
  configure(
      {{{"name", "conv"}, {"type", "conv2d"}, {"out_channels", 4}, {"kernel", 3}, {"padding", 1}},
       {{"name", "relu"}, {"type", "relu"}},
       {{"name", "head"}, {"type", "conv2d"}, {"out_channels", 21}, {"kernel", 1}}},
      {{"ignore_index", 255}}, {{"name", "voc2012"}, {"crop", 24}, {"augment", true}}, 4);
  const auto result = program.run(
      small_run("single,ddp,ps", {"--gpus=2", "--data-dir=data", "--batch-size=2", "--epochs=4"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("6 of the 1464 published training samples"));
  for (const json& run : program.report()["runs"]) {
    EXPECT_EQ(run["verification"]["status"], run["strategy"] == "single" ? "reference" : "passed");
    EXPECT_EQ(run["dataset"]["augment"], true);
    EXPECT_LT(run["epochs"][3]["train_loss"], run["epochs"][0]["train_loss"]);
  }
}

TEST_F(ProgramImages, ThatAreDamagedAreRefusedByName) {
  put_classes();
  put("data/train/red/3.jpg", "\xff\xd8\xff");
  configure_classes();
  const auto result = program.run(small_run("single", {"--data-dir=data"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("data/train/red/3.jpg: not a whole image"));
  EXPECT_TRUE(fs::is_empty(program.path("cache/ddpbench/decoded")));
}

}  // namespace
}  // namespace ddpbench
