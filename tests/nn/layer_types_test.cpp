// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The attributes of conv2d, the average pools and concat in model files: shapes, defaults, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/nn/model/model_reader.h"

namespace ddpbench::nn {
namespace {

using ::testing::HasSubstr;

// A model on [8, 12, 9]: these layers, then a head.
ModelSpec on_a_map(const std::string& layers) {
  return parse_model(R"({"name": "m", "input": [8, 12, 9], "layers": [)" + layers +
                         R"(, {"name": "head", "type": "linear", "out_features": 3}]})",
                     "m.json");
}

TEST(LayerTypes, ConvolutionsHaveGroupsAndDilation) {
  // The dilated kernel spans 2 * 2 + 1 = 5 rows and 3 * 2 + 1 = 7 columns:
  // floor((12 - 5) / 2) + 1 = 4 and floor((9 + 2 - 7) / 1) + 1 = 5.
  const ModelSpec model =
      on_a_map(R"({"name": "c", "type": "conv2d", "out_channels": 12, "kernel": 3, "groups": 4,
                   "dilation": [2, 3], "stride": [2, 1], "padding": [0, 1]})");
  const LayerSpec& conv = model.layers[0];
  EXPECT_EQ(conv.groups, 4);
  EXPECT_EQ(conv.dilation, (ops::Dilation2d{2, 3}));
  EXPECT_EQ(conv.output_shape, (ops::Shape{12, 4, 5}));
  EXPECT_EQ(model.plan_of(conv).parameters[0].shape, (ops::Shape{12, 2, 3, 3}));
  EXPECT_EQ(model.parameter_count(), 12 * 2 * 9 + 12 + 3 * 12 * 20 + 3);
  const LayerSpec plain =
      on_a_map(R"({"name": "c", "type": "conv2d", "out_channels": 12, "kernel": 3})").layers[0];
  EXPECT_EQ(plain.groups, 1);
  EXPECT_EQ(plain.dilation, (ops::Dilation2d{1, 1}));
}

TEST(LayerTypes, AveragePoolsHavePyTorchsDefaults) {
  const LayerSpec pool =
      on_a_map(R"({"name": "p", "type": "avg_pool2d", "kernel": [3, 2]})").layers[0];
  EXPECT_EQ(pool.window.stride_h, 3);
  EXPECT_EQ(pool.window.stride_w, 2);
  EXPECT_TRUE(pool.count_include_pad);
  EXPECT_EQ(pool.output_shape, (ops::Shape{8, 4, 4}));
  const LayerSpec padded = on_a_map(R"({"name": "p", "type": "avg_pool2d", "kernel": 3, "stride": 1,
                                        "padding": 1, "count_include_pad": false})")
                               .layers[0];
  EXPECT_FALSE(padded.count_include_pad);
  EXPECT_EQ(padded.output_shape, (ops::Shape{8, 12, 9}));
}

// Shapes of torch.nn.MaxPool2d and AvgPool2d on 12 x 9 maps, the third with a last window that
// would begin in the padding at the right.
TEST(LayerTypes, PoolsRoundUpInCeilMode) {
  const auto shape = [](const std::string& type, const std::string& more) {
    return on_a_map(R"({"name": "p", "type": ")" + type + R"(", "ceil_mode": true, )" + more + "}")
        .layers[0]
        .output_shape;
  };
  for (const std::string type : {"max_pool2d", "avg_pool2d"}) {
    EXPECT_EQ(shape(type, R"("kernel": 2)"), (ops::Shape{8, 6, 5}));
    EXPECT_EQ(shape(type, R"("kernel": 3, "stride": 2)"), (ops::Shape{8, 6, 4}));
    EXPECT_EQ(shape(type, R"("kernel": 2, "stride": [5, 10], "padding": 1)"),
              (ops::Shape{8, 3, 1}));
    EXPECT_EQ(shape(type, R"("kernel": [13, 9], "stride": 2)"), (ops::Shape{8, 1, 1}));
  }
  EXPECT_FALSE(
      on_a_map(R"({"name": "p", "type": "max_pool2d", "kernel": 2})").layers[0].window.ceil_mode);
}

// PyTorch's "same" adds an odd element below and at the right.
TEST(LayerTypes, SidesMayDifferInTheirPadding) {
  const auto padded = [](const std::string& more) {
    return on_a_map(R"({"name": "c", "type": "conv2d", "out_channels": 4, )" + more + "}")
        .layers[0];
  };
  const LayerSpec same = padded(R"("kernel": [4, 3], "dilation": [1, 2], "padding": "same")");
  EXPECT_EQ(same.output_shape, (ops::Shape{4, 12, 9}));
  EXPECT_EQ(same.window, (ops::Window2d{4, 3, 1, 1, 1, 2, 1, 0}));
  const LayerSpec sides = padded(R"("kernel": 3, "stride": 2, "padding": [0, 1, 2, 3])");
  EXPECT_EQ(sides.window, (ops::Window2d{3, 3, 2, 2, 0, 2, 1, 1}));
  EXPECT_EQ(sides.output_shape, (ops::Shape{4, 6, 6}));
  EXPECT_EQ(padded(R"("kernel": 3, "padding": [1, 1, 2, 2])").window,
            padded(R"("kernel": 3, "padding": [1, 2])").window);
}

TEST(LayerTypes, AdaptivePoolsHaveTheSizeThatTheyAreGiven) {
  const auto size = [](const std::string& words) {
    return on_a_map(R"({"name": "p", "type": "adaptive_avg_pool2d", "output_size": )" + words + "}")
        .layers[0]
        .output_shape;
  };
  EXPECT_EQ(size("1"), (ops::Shape{8, 1, 1}));
  EXPECT_EQ(size("[6, 4]"), (ops::Shape{8, 6, 4}));
}

TEST(LayerTypes, UpsamplingTakesASizeOrThatOfAnotherMap) {
  const ModelSpec model = on_a_map(
      R"({"name": "c", "type": "conv2d", "out_channels": 5, "kernel": 3, "stride": 4},
         {"name": "given", "type": "upsample_bilinear", "output_size": [7, 5]},
         {"name": "taken", "type": "upsample_bilinear", "inputs": ["given", "input"]})");
  EXPECT_EQ(model.layers[1].output_shape, (ops::Shape{5, 7, 5}));
  EXPECT_EQ(model.layers[2].output_shape, (ops::Shape{5, 12, 9}));
  EXPECT_EQ(model.layers[2].inputs, (std::vector<int>{1}));
  // How the size is said does not matter, so the hashes are equal.
  const std::string small = R"({"name": "c", "type": "avg_pool2d", "kernel": 2},)";
  EXPECT_EQ(content_hash(on_a_map(small + R"({"name": "u", "type": "upsample_bilinear",
                                              "inputs": ["c", "input"]})")),
            content_hash(on_a_map(small + R"({"name": "u", "type": "upsample_bilinear",
                                              "output_size": [12, 9]})")));
}

TEST(LayerTypes, ConcatAddsUpChannels) {
  const ModelSpec model = on_a_map(
      R"({"name": "c", "type": "conv2d", "out_channels": 5, "kernel": 1},
         {"name": "maps", "type": "concat", "inputs": ["c", "input", "c"]},
         {"name": "a", "type": "linear", "out_features": 7},
         {"name": "b", "type": "linear", "inputs": ["maps"], "out_features": 2},
         {"name": "features", "type": "concat", "inputs": ["a", "b"]})");
  EXPECT_EQ(model.layers[1].output_shape, (ops::Shape{18, 12, 9}));
  EXPECT_EQ(model.layers[4].output_shape, (ops::Shape{9}));
}

TEST(LayerTypes, NewAttributesTakePartInTheHash) {
  const std::string conv = R"({"name": "c", "type": "conv2d", "out_channels": 8, "kernel": 3)";
  const std::string average = R"({"name": "c", "type": "avg_pool2d", "kernel": 3, "padding": 1)";
  const std::string adaptive = R"({"name": "c", "type": "adaptive_avg_pool2d", "output_size": )";
  std::vector<std::uint64_t> hashes;
  for (const std::string& layer :
       {conv + "}", conv + R"(, "groups": 2})", conv + R"(, "groups": 4})",
        conv + R"(, "init": "normal_fan_out"})", conv + R"(, "init": 0.1})",
        conv + R"(, "init": 0.2})", conv + R"(, "dilation": 2})", conv + R"(, "dilation": [1, 2]})",
        conv + R"(, "trainable": false})", conv + R"(, "padding": [0, 1, 0, 0]})",
        conv + R"(, "padding": [0, 0, 0, 1]})", average + R"(, "ceil_mode": true})", average + "}",
        average + R"(, "count_include_pad": false})", adaptive + "[1, 2]}", adaptive + "[2, 1]}"}) {
    hashes.push_back(content_hash(on_a_map(layer)));
  }
  std::sort(hashes.begin(), hashes.end());
  EXPECT_EQ(std::adjacent_find(hashes.begin(), hashes.end()), hashes.end());
  EXPECT_EQ(
      content_hash(on_a_map(conv + "}")),
      content_hash(on_a_map(conv + R"(, "groups": 1, "dilation": 1, "init": "uniform_fan_in"})")));
}

// The hash of a network that older versions could read is the one that is in their reports.
TEST(LayerTypes, OldNetworksKeepTheirHash) {
  const ModelSpec model = parse_model(
      R"({"name": "m", "input": [1, 4, 4], "layers": [
           {"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3},
           {"name": "fc", "type": "linear", "out_features": 2}]})",
      "m.json");
  EXPECT_EQ(content_hash(model), 16110806646894308564U);
}

TEST(LayerTypes, LayersAndBlocksCanBeFrozen) {
  const ModelSpec model = parse_model(R"({"name": "m", "input": [1, 8, 8],
    "blocks": {
      "in": {"parameters": {"on": true}, "layers": [
        {"name": "a", "type": "conv2d", "out_channels": 2, "kernel": 1, "trainable": "$on"},
        {"name": "n", "type": "batch_norm2d"}]},
      "out": {"layers": [{"name": "in", "block": "in"}, {"name": "r", "type": "relu"}]}},
    "layers": [
      {"name": "x", "block": "out", "trainable": false, "repeat": 2},
      {"name": "y", "block": "in", "with": {"on": false}},
      {"name": "z", "block": "in", "trainable": true},
      {"name": "fc", "type": "linear", "out_features": 3}]})",
                                      "m.json");
  std::vector<std::string> trained;
  for (const LayerSpec& layer : model.layers) {
    if (layer.trainable) trained.push_back(layer.name);
  }
  EXPECT_EQ(trained, (std::vector<std::string>{"y.n", "z.a", "z.n", "fc"}));
  EXPECT_EQ(model.parameter_count(), 4 + 4 + 3 * (6 + 4) + 3 * 128 + 3);
  EXPECT_EQ(model.trained_count(), 4 + 6 + 4 + 3 * 128 + 3);
  EXPECT_EQ(model.tensor_count(), 8);
}

TEST(LayerTypes, SharedWeightsAreRefusedInWords) {
  const auto error_of = [](const std::string& layers) -> std::string {
    try {
      on_a_map(layers);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* key : {"weights", "weight", "shared_with", "share_weights", "tied_to"}) {
    EXPECT_EQ(error_of(R"({"name": "a", "type": "linear", "out_features": 3, ")" +
                       std::string(key) + R"(": "head"})"),
              "m.json at /layers/0/" + std::string(key) +
                  ": layers cannot share weights; each has its own, so leave the key out");
  }
  EXPECT_THAT(error_of(R"({"name": "head", "type": "linear", "out_features": 3})"),
              HasSubstr("layers cannot share weights"));
  EXPECT_THAT(error_of(R"({"name": "r", "type": "relu", "trainable": false})"),
              HasSubstr("/layers/0/trainable:"));
}

struct WrongLayer {
  const char* name;
  std::string layers;
  std::string pointer;
  std::vector<std::string> words;
};

std::vector<WrongLayer> wrong_layers() {
  const auto conv = [](const std::string& more) {
    return R"({"name": "c", "type": "conv2d", "out_channels": 6, "kernel": 3)" + more + "}";
  };
  return {
      {"GroupsZero", conv(R"(, "groups": 0)"), "/layers/0/groups:", {"from 1 to", "found 0"}},
      {"GroupsThatDoNotDivideTheOutput",
       conv(R"(, "groups": 4)"),
       "/layers/0/groups:",
       {"groups is 4", "out_channels, 6"}},
      {"GroupsThatDoNotDivideTheInput",
       conv(R"(, "groups": 3)"),
       "/layers/0:",
       {R"(the layer "c")", "3 groups do not divide 8 input and 6 output channels"}},
      {"UnknownInit",
       conv(R"(, "init": "normal_fan_in")"),
       "/layers/0/init:",
       {R"(unknown init "normal_fan_in")", "normal_fan_out"}},
      {"NegativeInit", conv(R"(, "init": -1)"), "/layers/0/init:", {"deviation", "from 0"}},
      {"DilationZero", conv(R"(, "dilation": 0)"), "/layers/0/dilation:", {"from 1 to", "found 0"}},
      {"DilationBeyondTheMap",
       conv(R"(, "dilation": [1, 5])"),
       "/layers/0:",
       {"the kernel [3, 3]", "dilation [1, 5] does not fit", "[8, 12, 9]"}},
      {"SameWithAStride",
       conv(R"(, "stride": 2, "padding": "same")"),
       "/layers/0/padding:",
       {"needs a stride of 1", "[top, bottom, left, right]"}},
      {"PaddingInWords",
       conv(R"(, "padding": "valid")"),
       "/layers/0/padding:",
       {R"([top, bottom, left, right] or "same")"}},
      {"NegativePadding",
       conv(R"(, "padding": [0, 0, -1, 0])"),
       "/layers/0/padding/2:",
       {"from 0 to", "found -1"}},
      {"CeilModeOfAConvolution",
       conv(R"(, "ceil_mode": true)"),
       "/layers/0/ceil_mode:",
       {"a layer of type conv2d"}},
      {"OneSidePaddedPastHalf",
       R"({"name": "p", "type": "max_pool2d", "kernel": 3, "padding": [0, 2, 0, 0]})",
       "/layers/0:",
       {"padding [0, 2, 0, 0] is more than half of the kernel [3, 3]"}},
      {"GroupsOfAPool",
       R"({"name": "p", "type": "avg_pool2d", "kernel": 2, "groups": 2})",
       "/layers/0/groups:",
       {"a layer of type avg_pool2d"}},
      {"AveragePaddedPastHalf",
       R"({"name": "p", "type": "avg_pool2d", "kernel": 3, "padding": 2})",
       "/layers/0:",
       {"more than half of the kernel [3, 3]"}},
      {"CountOfPaddingNoBoolean",
       R"({"name": "p", "type": "avg_pool2d", "kernel": 2, "count_include_pad": 1})",
       "/layers/0/count_include_pad:",
       {"true or false, found 1"}},
      {"AverageAfterLinear",
       R"({"name": "fc", "type": "linear", "out_features": 3},
          {"name": "p", "type": "avg_pool2d", "kernel": 2})",
       "/layers/1:",
       {"[channels, h, w]", R"("fc" of shape [3])"}},
      {"AdaptiveWithoutASize",
       R"({"name": "p", "type": "adaptive_avg_pool2d"})",
       "/layers/0:",
       {R"("output_size" is missing)"}},
      {"AdaptiveToNothing",
       R"({"name": "p", "type": "adaptive_avg_pool2d", "output_size": [1, 0]})",
       "/layers/0/output_size/1:",
       {"from 1 to", "found 0"}},
      {"AdaptiveToTooMuch",
       R"({"name": "p", "type": "adaptive_avg_pool2d", "output_size": 1048576})",
       "/layers/0:",
       {"output", "more than 2147483647 elements"}},
      {"AdaptiveAfterLinear",
       R"({"name": "fc", "type": "linear", "out_features": 3},
          {"name": "p", "type": "adaptive_avg_pool2d", "output_size": 1})",
       "/layers/1:",
       {"[channels, h, w]"}},
      {"UpsamplingWithoutASize",
       R"({"name": "u", "type": "upsample_bilinear"})",
       "/layers/0:",
       {R"(takes 2 inputs or has an "output_size", found 1)"}},
      {"UpsamplingWithTwoSizes",
       R"({"name": "u", "type": "upsample_bilinear", "output_size": 3, "inputs": ["input", "input"]})",
       "/layers/0/inputs:",
       {"takes 1 input, found 2"}},
      {"UpsamplingToTheSizeOfFeatures",
       R"({"name": "fc", "type": "linear", "out_features": 3},
          {"name": "u", "type": "upsample_bilinear", "inputs": ["input", "fc"]})",
       "/layers/1:",
       {R"(cannot take the size of "fc" of shape [3])"}},
      {"SizeOfAMapThatLeadsNowhere",
       R"({"name": "p", "type": "avg_pool2d", "kernel": 2},
          {"name": "u", "type": "upsample_bilinear", "inputs": ["input", "p"]})",
       "/layers/0:",
       {R"(does not depend on the layer "p")"}},
      {"ConcatOfOne",
       R"({"name": "j", "type": "concat", "inputs": ["input"]})",
       "/layers/0/inputs:",
       {"type concat takes from 2 to 256 inputs, found 1"}},
      {"ConcatWithoutInputs",
       R"({"name": "j", "type": "concat"})",
       "/layers/0:",
       {"takes from 2 to 256 inputs, found 1"}},
      {"ConcatOfOtherMaps",
       R"({"name": "p", "type": "avg_pool2d", "kernel": 2},
          {"name": "j", "type": "concat", "inputs": ["input", "input", "p"]})",
       "/layers/1:",
       {R"("input" of shape [8, 12, 9])", R"("p" of shape [8, 6, 4])"}},
      {"ConcatOfMapAndFeatures",
       R"({"name": "fc", "type": "linear", "out_features": 3},
          {"name": "j", "type": "concat", "inputs": ["input", "fc"]})",
       "/layers/1:",
       {R"("fc" of shape [3])"}},
  };
}

class WrongLayerType : public ::testing::TestWithParam<WrongLayer> {};

TEST_P(WrongLayerType, IsRefusedWithPlaceAndValues) {
  try {
    on_a_map(GetParam().layers);
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("m.json at " + GetParam().pointer));
    for (const std::string& word : GetParam().words) EXPECT_THAT(error.what(), HasSubstr(word));
  }
}

INSTANTIATE_TEST_SUITE_P(LayerTypes, WrongLayerType, ::testing::ValuesIn(wrong_layers()),
                         [](const auto& instance) { return instance.param.name; });

TEST(LayerTypes, ConcatHasManyInputsButNotAnyNumber) {
  const auto concat = [](int inputs) {
    std::string names = R"("input")";
    for (int i = 1; i < inputs; ++i) names += R"(, "input")";
    return R"({"name": "j", "type": "concat", "inputs": [)" + names + "]}";
  };
  EXPECT_EQ(on_a_map(concat(256)).layers[0].output_shape, (ops::Shape{8 * 256, 12, 9}));
  EXPECT_THROW(on_a_map(concat(257)), ConfigError);
}

}  // namespace
}  // namespace ddpbench::nn
