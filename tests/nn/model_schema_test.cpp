// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// configs/schema/model.schema.json takes what the program takes, and refuses what a schema can see.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "kernels/nn/model/model_reader.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::nn {
namespace {

const std::string kFolder = std::string(DDPBENCH_SOURCE_DIR) + "/configs";

std::size_t errors_of(const std::string& text) {
  static const test::SchemaValidator validator(kFolder + "/schema/model.schema.json");
  return validator.errors(nlohmann::json::parse(text)).size();
}

TEST(ModelSchema, TakesEveryNetworkThatIsHere) {
  int networks = 0;
  for (const auto& file : std::filesystem::directory_iterator(kFolder + "/models")) {
    SCOPED_TRACE(file.path());
    std::ifstream stream(file.path());
    EXPECT_EQ(errors_of({std::istreambuf_iterator<char>(stream), {}}), 0u);
    EXPECT_NO_THROW(load_model_file(file.path()));
    EXPECT_EQ(load_model_file(file.path()).name, file.path().stem());
    ++networks;
  }
  EXPECT_GE(networks, 2);
}

// Each layer type with all of its attributes, and a block with all of its keys.
TEST(ModelSchema, TakesEveryKey) {
  const std::string text = R"({"$schema": "../schema/model.schema.json",
    "name": "all", "input": [4, 16, 16], "output": "fc",
    "init": {"conv2d": "normal_fan_out", "linear": 0.5},
    "loss": {"type": "cross_entropy", "label_smoothing": 0.1, "ignore_index": 255},
    "auxiliary": [{"output": "early", "weight": 0.4,
                   "loss": {"type": "cross_entropy", "label_smoothing": 0.2}}],
    "blocks": {
      "b": {"parameters": {"k": 3, "c": null, "on": true}, "inputs": ["x", "y"], "output": "sum",
            "layers": [
              {"name": "conv", "type": "conv2d", "inputs": ["x"], "out_channels": "$c",
               "kernel": ["$k", "$k"], "padding": 1, "bias": "$on"},
              {"name": "sum", "type": "add", "inputs": ["conv", "y"]}]},
      "r": {"layers": [{"name": "relu", "type": "relu"}]}},
    "layers": [
      {"name": "c", "type": "conv2d", "inputs": ["input"], "in_channels": 4, "out_channels": 4,
       "kernel": [3, 3], "stride": 1, "padding": [2, 2], "dilation": 2, "groups": 2, "bias": false,
       "init": "uniform_fan_in"},
      {"name": "b", "block": "b", "inputs": ["c", "input"], "with": {"c": 4, "k": 3}},
      {"name": "r", "block": "r", "repeat": 2, "first": 1},
      {"name": "m", "type": "max_pool2d", "kernel": 2, "stride": [2, 2], "padding": 0,
       "ceil_mode": true},
      {"name": "e", "type": "conv2d", "out_channels": 4, "kernel": 2, "padding": "same"},
      {"name": "f", "type": "conv2d", "out_channels": 4, "kernel": 2, "padding": [0, 1, 1, 0],
       "trainable": false},
      {"name": "h", "block": "r", "trainable": false},
      {"name": "i", "type": "batch_norm2d", "trainable": false},
      {"name": "a", "type": "avg_pool2d", "kernel": 2, "stride": 1, "padding": 1,
       "count_include_pad": false},
      {"name": "n", "type": "batch_norm2d", "inputs": ["a"], "num_features": 4, "eps": 0.001,
       "momentum": 1, "affine": false},
      {"name": "j", "type": "concat", "inputs": ["a", "n"]},
      {"name": "g", "type": "adaptive_avg_pool2d", "output_size": [2, 1]},
      {"name": "v", "type": "upsample_bilinear", "output_size": 3},
      {"name": "w", "type": "upsample_bilinear", "inputs": ["v", "g"]},
      {"name": "d", "type": "dropout", "p": 0.25},
      {"name": "s", "type": "relu6"},
      {"name": "t", "type": "tanh"},
      {"name": "u", "type": "sigmoid"},
      {"name": "fc", "type": "linear", "in_features": 16, "out_features": 3, "bias": true, "trainable": true},
      {"name": "early", "type": "linear", "inputs": ["g"], "out_features": 3}]})";
  EXPECT_EQ(errors_of(text), 0u);
  EXPECT_NO_THROW(parse_model(text, "all.json"));
}

TEST(ModelSchema, RefusesWhatTheProgramRefuses) {
  const auto with_layer = [](const std::string& layer) {
    return R"({"name": "m", "input": [4, 8, 8], "layers": [)" + layer +
           R"(, {"name": "fc", "type": "linear", "out_features": 3}]})";
  };
  const auto with_loss = [](const std::string& loss) {
    return R"({"name": "m", "input": [4, 8, 8], "layers": [
      {"name": "fc", "type": "linear", "out_features": 3}], "loss": )" +
           loss + "}";
  };
  EXPECT_EQ(errors_of(with_layer(R"({"name": "r", "type": "relu"})")), 0u);
  EXPECT_EQ(errors_of(with_loss("{}")), 0u);
  for (const std::string& text :
       {with_layer(R"({"name": "r", "type": "relu7"})"),
        with_layer(R"({"type": "relu"})"),
        with_layer(R"({"name": "r", "type": "relu", "kernel": 2})"),
        with_layer(R"({"name": "r/s", "type": "relu"})"),
        with_layer(R"({"name": "p", "type": "avg_pool2d"})"),
        with_layer(R"({"name": "p", "type": "avg_pool2d", "kernel": 0})"),
        with_layer(R"({"name": "p", "type": "avg_pool2d", "kernel": [1, 2, 3]})"),
        with_layer(R"({"name": "p", "type": "avg_pool2d", "kernel": 2, "ceil_mode": 1})"),
        with_layer(R"({"name": "p", "type": "max_pool2d", "kernel": 2, "padding": [0, 0, 1]})"),
        with_layer(R"({"name": "p", "type": "max_pool2d", "kernel": 2, "padding": "valid"})"),
        with_layer(R"({"name": "p", "type": "adaptive_avg_pool2d"})"),
        with_layer(R"({"name": "p", "type": "upsample_bilinear"})"),
        with_layer(R"({"name": "p", "type": "upsample_bilinear", "scale_factor": 2})"),
        with_layer(R"({"name": "n", "type": "batch_norm2d", "momentum": 1.5})"),
        with_layer(R"({"name": "n", "type": "batch_norm2d", "eps": "small"})"),
        with_layer(R"({"name": "n", "type": "batch_norm2d", "bias": true})"),
        with_layer(
            R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 1, "groups": 0})"),
        with_layer(R"({"name": "a", "type": "add", "inputs": ["input"]})"),
        with_layer(R"({"name": "a", "type": "relu", "trainable": false})"),
        with_layer(R"({"name": "a", "type": "batch_norm2d", "trainable": 0})"),
        with_layer(R"({"name": "d", "type": "dropout", "p": 1})"),
        with_layer(R"({"name": "d", "type": "dropout", "p": "half"})"),
        with_layer(R"({"name": "d", "type": "dropout", "inplace": true})"),
        with_layer(R"({"name": "j", "type": "concat", "inputs": ["input"]})"),
        with_layer(R"({"name": "b", "block": "b", "repeat": 0})"),
        with_layer(R"({"name": "b", "block": "b", "type": "relu"})"),
        with_loss("[]"),
        with_loss(R"({}, "auxiliary": [{"weight": 1}])"),
        with_loss(R"({}, "auxiliary": [{"output": "fc", "weight": 0}])"),
        with_loss(R"({}, "auxiliary": [{"output": "fc", "loss": {"ignore_index": 1}}])"),
        with_loss(R"({"type": "mean_square"})"),
        with_loss(R"({"weight": 2})"),
        with_loss(R"({"label_smoothing": 2})"),
        with_loss(R"({"label_smoothing": "some"})"),
        with_loss(R"({"ignore_index": -1})"),
        with_loss(R"({"ignore_index": 0.5})"),
        std::string(R"({"name": "m", "input": [8, 8], "layers": []})"),
        std::string(R"({"name": "m", "input": [1, 8, 8], "layers": []})"),
        std::string(R"({"name": "m", "input": [1, 8, 8], "layer": []})")}) {
    SCOPED_TRACE(text);
    EXPECT_GT(errors_of(text), 0u);
    EXPECT_THROW(parse_model(text, "m.json"), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::nn
