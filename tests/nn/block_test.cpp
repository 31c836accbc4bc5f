// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Blocks in model files: what they stand for, and each error that they can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "kernels/nn/model/model_reader.h"

namespace ddpbench::nn {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kBlocksHead = R"({"name": "head", "type": "linear", "out_features": 3})";

// A model on [4, 8, 8]: these layers, then a head.
std::string text_with_blocks(const std::string& blocks, const std::string& layers) {
  return R"({"name": "m", "input": [4, 8, 8], "blocks": {)" + blocks + R"(}, "layers": [)" +
         layers + ", " + kBlocksHead + "]}";
}

ModelSpec with_blocks(const std::string& blocks, const std::string& layers) {
  return parse_model(text_with_blocks(blocks, layers), "m.json");
}

std::string block_error_of(const std::string& text) {
  try {
    parse_model(text, "m.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> names_of_layers(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : model.layers) names.push_back(layer.name);
  return names;
}

const LayerSpec& layer_named(const ModelSpec& model, const std::string& name) {
  const auto found = std::find_if(model.layers.begin(), model.layers.end(),
                                  [&](const LayerSpec& spec) { return spec.name == name; });
  EXPECT_NE(found, model.layers.end()) << name;
  return found == model.layers.end() ? model.layers[0] : *found;
}

// The names of a layer's inputs.
std::vector<std::string> names_of_inputs(const ModelSpec& model, const std::string& name) {
  std::vector<std::string> names;
  for (const int input : layer_named(model, name).inputs) {
    names.push_back(input == kNetworkInput ? "input"
                                           : model.layers[static_cast<std::size_t>(input)].name);
  }
  return names;
}

const std::string kResidual = R"("residual": {
    "parameters": {"channels": null, "kernel": 3, "padding": [1, 1]},
    "layers": [
      {"name": "conv", "type": "conv2d", "out_channels": "$channels", "kernel": "$kernel",
       "padding": "$padding", "bias": false},
      {"name": "relu", "type": "relu"},
      {"name": "sum", "type": "add", "inputs": ["relu", "input"]}]})";

TEST(Blocks, StandForTheirLayers) {
  const ModelSpec model =
      with_blocks(kResidual, R"({"name": "first", "block": "residual", "with": {"channels": 4}})");
  EXPECT_THAT(names_of_layers(model), ElementsAre("first.conv", "first.relu", "first.sum", "head"));
  EXPECT_THAT(names_of_inputs(model, "first.conv"), ElementsAre("input"));
  EXPECT_THAT(names_of_inputs(model, "first.sum"), ElementsAre("first.relu", "input"));
  EXPECT_THAT(names_of_inputs(model, "head"), ElementsAre("first.sum"));
  EXPECT_EQ(layer_named(model, "first.conv").window, ops::square_window(3, 1, 1));
}

// The same network, said in blocks or layer by layer.
TEST(Blocks, LeaveNoTraceInTheNetwork) {
  const ModelSpec placed = with_blocks(
      kResidual,
      R"({"name": "a", "block": "residual", "with": {"channels": 4, "kernel": 1, "padding": 0}})");
  const ModelSpec written = parse_model(
      R"({"name": "other", "input": [4, 8, 8], "layers": [
           {"name": "a.conv", "type": "conv2d", "out_channels": 4, "kernel": 1, "bias": false},
           {"name": "a.relu", "type": "relu"},
           {"name": "a.sum", "type": "add", "inputs": ["a.relu", "input"]}, )" +
          kBlocksHead + "]}",
      "n.json");
  EXPECT_EQ(content_hash(placed), content_hash(written));
}

TEST(Blocks, RepeatAsAChain) {
  const ModelSpec model = with_blocks(
      kResidual,
      R"({"name": "stage", "block": "residual", "repeat": 3, "first": 1, "with": {"channels": 4}})");
  ASSERT_EQ(model.layers.size(), 10u);
  EXPECT_THAT(names_of_inputs(model, "stage.1.conv"), ElementsAre("input"));
  EXPECT_THAT(names_of_inputs(model, "stage.2.conv"), ElementsAre("stage.1.sum"));
  EXPECT_THAT(names_of_inputs(model, "stage.3.sum"), ElementsAre("stage.3.relu", "stage.2.sum"));
  EXPECT_THAT(names_of_inputs(model, "head"), ElementsAre("stage.3.sum"));
}

TEST(Blocks, CountRepetitionsFromZero) {
  const ModelSpec model = with_blocks(
      kResidual, R"({"name": "s", "block": "residual", "repeat": 1, "with": {"channels": 4}})");
  EXPECT_EQ(model.layers[0].name, "s.0.conv");
}

TEST(Blocks, AreReadByTheirNameAndByTheirLayers) {
  const ModelSpec model =
      with_blocks(kResidual,
                  R"({"name": "s", "block": "residual", "repeat": 2, "with": {"channels": 4}},
         {"name": "a", "type": "add", "inputs": ["s", "s.0"]},
         {"name": "b", "type": "add", "inputs": ["s.1.relu", "a"]})");
  EXPECT_THAT(names_of_inputs(model, "a"), ElementsAre("s.1.sum", "s.0.sum"));
  EXPECT_THAT(names_of_inputs(model, "b"), ElementsAre("s.1.relu", "a"));
}

TEST(Blocks, MayComeLaterInTheFileThanTheirReaders) {
  const ModelSpec model = with_blocks(kResidual,
                                      R"({"name": "after", "type": "relu", "inputs": ["s"]},
         {"name": "s", "block": "residual", "inputs": ["input"], "with": {"channels": 4}},
         {"name": "last", "type": "relu", "inputs": ["after"]})");
  EXPECT_THAT(names_of_inputs(model, "after"), ElementsAre("s.sum"));
}

TEST(Blocks, MayHaveSeveralInputsAndAnotherOutput) {
  const ModelSpec model = with_blocks(
      R"("mix": {"inputs": ["left", "right"], "output": "sum", "layers": [
           {"name": "sum", "type": "add", "inputs": ["shift", "right"]},
           {"name": "shift", "type": "relu", "inputs": ["left"]}]})",
      R"({"name": "r", "type": "relu"},
         {"name": "m", "block": "mix", "inputs": ["input", "r"]})");
  EXPECT_THAT(names_of_inputs(model, "m.shift"), ElementsAre("input"));
  EXPECT_THAT(names_of_inputs(model, "m.sum"), ElementsAre("m.shift", "r"));
  EXPECT_THAT(names_of_inputs(model, "head"), ElementsAre("m.sum"));
}

TEST(Blocks, MayConsistOfBlocksAndHandValuesOn) {
  const ModelSpec model =
      with_blocks(kResidual + R"(, "stage": {"parameters": {"width": null, "more": 2}, "layers": [
          {"name": "in", "type": "conv2d", "out_channels": "$width", "kernel": 1},
          {"name": "body", "block": "residual", "repeat": "$more",
           "with": {"channels": "$width", "kernel": [1, 3], "padding": [0, 1]}}]})",
                  R"({"name": "one", "block": "stage", "with": {"width": 6}},
         {"name": "two", "block": "stage", "with": {"width": 5, "more": 1}})");
  EXPECT_THAT(names_of_layers(model),
              ElementsAre("one.in", "one.body.0.conv", "one.body.0.relu", "one.body.0.sum",
                          "one.body.1.conv", "one.body.1.relu", "one.body.1.sum", "two.in",
                          "two.body.0.conv", "two.body.0.relu", "two.body.0.sum", "head"));
  EXPECT_THAT(names_of_inputs(model, "two.in"), ElementsAre("one.body.1.sum"));
  EXPECT_EQ(layer_named(model, "two.body.0.conv").output_shape, (ops::Shape{5, 8, 8}));
  EXPECT_EQ(layer_named(model, "one.body.1.conv").window.kernel_w, 3);
  EXPECT_THAT(names_of_inputs(model, "head"), ElementsAre("two.body.0.sum"));
}

TEST(Blocks, MayBeTheOutput) {
  const ModelSpec model = parse_model(
      R"({"name": "m", "input": [4, 8, 8], "blocks": {"end": {"output": "fc", "layers": [
             {"name": "fc", "type": "linear", "inputs": ["relu"], "out_features": 2},
             {"name": "relu", "type": "relu", "inputs": ["input"]}]}},
          "layers": [{"name": "head", "block": "end"}]})",
      "m.json");
  EXPECT_EQ(model.layers[static_cast<std::size_t>(model.output)].name, "head.fc");
}

struct BadBlocks {
  const char* name;
  std::string blocks, layers;
  std::string pointer;
  std::vector<std::string> words;
};

std::vector<BadBlocks> bad_blocks() {
  const std::string place = R"({"name": "b", "block": "residual", "with": {"channels": 4}})";
  const std::string relu = R"("layers": [{"name": "r", "type": "relu"}])";
  const std::string plain = R"({"name": "x", "block": "b"})";
  return {
      {"NoObject", R"("b": [])", plain, "/blocks/b:", {"a block must be an object"}},
      {"UnknownKey",
       R"("b": {"layer": [], )" + relu + "}",
       plain,
       "/blocks/b/layer:",
       {R"(did you mean "layers"?)"}},
      {"NameOfABlock", R"("b b": {)" + relu + "}", plain, "/blocks/b b:", {"is no block name"}},
      {"NoLayers", R"("b": {"layers": []})", plain, "/blocks/b/layers:", {"has no layers"}},
      {"LayersMissing", R"("b": {})", plain, "/blocks/b:", {R"("layers" is missing)"}},
      {"LayerWithoutAName",
       R"("b": {"layers": [{"type": "relu"}]})",
       plain,
       "/blocks/b/layers/0:",
       {R"("name" is missing)"}},
      {"LayerNamedAsAnInput",
       R"("b": {"inputs": ["left"], "layers": [{"name": "left", "type": "relu"}]})",
       plain,
       "/blocks/b/layers/0/name:",
       {R"("left" is an input of the block "b")"}},
      {"NoInputs", R"("b": {"inputs": [], )" + relu + "}", plain, "/blocks/b/inputs:", {"found 0"}},
      {"UnknownOutput",
       R"("b": {"output": "relu1", "layers": [{"name": "relu2", "type": "relu"}]})",
       plain,
       "/blocks/b/output:",
       {R"("relu1" is no layer of the block "b")", R"(did you mean "relu2"?)"}},
      {"ParameterOfAWrongKind",
       R"("b": {"parameters": {"k": {"h": 1}}, "layers": [{"name": "p", "type": "max_pool2d", "kernel": "$k"}]})",
       plain,
       "/blocks/b/parameters/k:",
       {"must be a number"}},
      {"UnknownParameter",
       R"("b": {"parameters": {"width": 3}, "layers": [
          {"name": "c", "type": "conv2d", "out_channels": "$width", "kernel": ["$widht", 1]}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/0/kernel/0:",
       {R"(no parameter "widht")", R"(did you mean "width"?)"}},
      {"UnknownBlock",
       kResidual,
       place + R"(, {"name": "c", "block": "residuals"})",
       "/layers/1/block:",
       {R"(no block "residuals")", R"(did you mean "residual"?)"}},
      {"UnknownKeyOfAPlacement",
       kResidual,
       R"({"name": "b", "block": "residual", "width": 4})",
       "/layers/0/width:",
       {"a layer that places a block", R"(did you mean "with"?)"}},
      {"TypeAndBlock",
       kResidual,
       R"({"name": "b", "block": "residual", "type": "relu"})",
       "/layers/0/type:",
       {"a layer that places a block"}},
      {"MissingValue",
       kResidual,
       R"({"name": "b", "block": "residual"})",
       "/layers/0:",
       {R"(needs a value for its parameter "channels")"}},
      {"MissingValueAmongOthers",
       kResidual,
       R"({"name": "b", "block": "residual", "with": {"kernel": 3}})",
       "/layers/0/with:",
       {R"(needs a value for its parameter "channels")"}},
      {"UnknownValue",
       kResidual,
       R"({"name": "b", "block": "residual", "with": {"channels": 4, "kernels": 3}})",
       "/layers/0/with/kernels:",
       {R"(did you mean "kernel"?)"}},
      {"NullAsAValue",
       kResidual,
       R"({"name": "b", "block": "residual", "with": {"channels": null}})",
       "/layers/0/with/channels:",
       {"must be a number"}},
      {"ValueThatTheLayerRefuses",
       kResidual,
       R"({"name": "b", "block": "residual", "repeat": 2, "with": {"channels": -4}})",
       "/layers/0 -> /blocks/residual/layers/0/out_channels:",
       {"from 1 to", "found -4"}},
      {"ShapesThatDoNotFit",
       kResidual,
       place + R"(, {"name": "c", "block": "residual", "with": {"channels": 5}})",
       "/layers/1 -> /blocks/residual/layers/2:",
       {R"("c.sum" cannot read "c.relu" of shape [5, 8, 8])"}},
      {"UnknownInputInABlock",
       R"("b": {"layers": [{"name": "r1", "type": "relu", "inputs": ["r2"]}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/0/inputs/0:",
       {R"("x.r1" reads "x.r2", which is no layer)"}},
      {"UnusedLayerInABlock",
       R"("b": {"layers": [{"name": "idle", "type": "relu"},
                           {"name": "r", "type": "relu", "inputs": ["input"]}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/0:",
       {R"(does not depend on the layer "x.idle")"}},
      {"CycleThroughABlock",
       kResidual,
       R"({"name": "r", "type": "relu", "inputs": ["b"]},
          {"name": "b", "block": "residual", "inputs": ["r"], "with": {"channels": 4}})",
       "/layers/0:",
       {"waits for a cycle"}},
      {"ContainsItself",
       R"("b": {"layers": [{"name": "c", "block": "b"}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/0 -> /blocks/b/layers/0 -> ",
       {"nested deeper than 16 levels"}},
      {"ContainsItselfThroughAnother",
       R"("b": {"layers": [{"name": "c", "block": "d"}]}, "d": {"layers": [{"name": "c", "block": "b"}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/0 -> /blocks/d/layers/0 -> ",
       {"nested deeper than 16 levels"}},
      {"RepeatZero",
       kResidual,
       R"({"name": "b", "block": "residual", "repeat": 0, "with": {"channels": 4}})",
       "/layers/0/repeat:",
       {"from 1 to 10000, found 0"}},
      {"FirstWithoutRepeat",
       kResidual,
       R"({"name": "b", "block": "residual", "first": 1, "with": {"channels": 4}})",
       "/layers/0/first:",
       {R"(say "repeat", too)"}},
      {"RepeatOfTwoInputs",
       R"("b": {"inputs": ["l", "r"], "layers": [{"name": "s", "type": "add", "inputs": ["l", "r"]}]})",
       R"({"name": "x", "block": "b", "repeat": 2, "inputs": ["input", "input"]})",
       "/layers/0/repeat:",
       {"only one with 1 input can be repeated"}},
      {"TooFewInputs",
       R"("b": {"inputs": ["l", "r"], "layers": [{"name": "s", "type": "add", "inputs": ["l", "r"]}]})",
       plain,
       "/layers/0:",
       {R"(the block "b" takes 2 inputs, found 1)"}},
      {"TooManyInputs",
       kResidual,
       R"({"name": "b", "block": "residual", "inputs": ["input", "input"], "with": {"channels": 4}})",
       "/layers/0/inputs:",
       {R"(the block "residual" takes 1 input, found 2)"}},
      {"NameTwice",
       kResidual,
       place + "," + place,
       "/layers/1/name:",
       {R"("b" is already used at /layers/0)"}},
      {"NameOfARepetitionTwice",
       kResidual,
       R"({"name": "b", "block": "residual", "repeat": 2, "with": {"channels": 4}},
          {"name": "b.1", "type": "relu"})",
       "/layers/1/name:",
       {R"("b.1" is already used at /layers/0)"}},
      {"NameOfALayerInABlockTwice",
       R"("b": {"layers": [{"name": "r", "type": "relu"}, {"name": "r", "type": "relu"}]})",
       plain,
       "/layers/0 -> /blocks/b/layers/1/name:",
       {R"("x.r" is already used at /layers/0 -> /blocks/b/layers/0)"}},
      {"LongName",
       R"("b": {"layers": [{"name": ")" + std::string(150, 'r') + R"(", "type": "relu"}]})",
       R"({"name": ")" + std::string(100, 'x') + R"(", "block": "b"})",
       "/layers/0 -> /blocks/b/layers/0/name:",
       {"200 characters at most, this one has 251"}},
  };
}

class WrongBlocks : public ::testing::TestWithParam<BadBlocks> {};

TEST_P(WrongBlocks, AreRefusedWithPlaceAndValues) {
  const std::string message =
      block_error_of(text_with_blocks(GetParam().blocks, GetParam().layers));
  EXPECT_THAT(message, HasSubstr("m.json at " + GetParam().pointer));
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
  EXPECT_LT(message.size(), 1000u) << message;
}

INSTANTIATE_TEST_SUITE_P(Blocks, WrongBlocks, ::testing::ValuesIn(bad_blocks()),
                         [](const auto& instance) { return instance.param.name; });

// Blocks of blocks: the first places the second ten times, and so on.
std::string tower(int levels, int repeat) {
  std::string blocks;
  for (int i = 0; i < levels; ++i) {
    blocks +=
        fmt::format(R"("b{}": {{"layers": [{{"name": "n", "block": "b{}", "repeat": {}}}]}},)", i,
                    i + 1, repeat);
  }
  return blocks + fmt::format(R"("b{}": {{"layers": [{{"name": "r", "type": "relu"}}]}})", levels);
}

TEST(Blocks, MakeNoMoreLayersThanANetworkMayHave) {
  const std::string place = R"({"name": "x", "block": "b0"})";
  EXPECT_EQ(with_blocks(tower(3, 10), place).layers.size(), 1001u);
  EXPECT_THAT(block_error_of(text_with_blocks(tower(4, 10), place)),
              AllOf(HasSubstr("m.json at /layers:"), HasSubstr("10000 layers at most")));
  EXPECT_THAT(block_error_of(text_with_blocks(tower(12, 10'000), place)),
              HasSubstr("10000 layers at most"));
}

TEST(Blocks, AreNestedSixteenLevelsDeepAtMost) {
  const std::string place = R"({"name": "x", "block": "b0"})";
  EXPECT_EQ(with_blocks(tower(15, 1), place).layers.size(), 2u);
  EXPECT_THAT(
      block_error_of(text_with_blocks(tower(16, 1), place)),
      AllOf(HasSubstr("/blocks/b15/layers/0/block:"), HasSubstr("nested deeper than 16 levels")));
}

}  // namespace
}  // namespace ddpbench::nn
