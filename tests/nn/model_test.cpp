// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Model files: their meaning, and each error that they can have.
#include "kernels/nn/model/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The message of the ConfigError that a model text gives; "" when it is accepted.
std::string error_of(const std::string& text) {
  try {
    parse_model(text, "m.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// A model on [1, 8, 8] with these layers.
std::string with_layers(const std::string& layers, const std::string& rest = "") {
  return R"({"name": "m", "input": [1, 8, 8], "layers": [)" + layers + "]" + rest + "}";
}

const std::string kHead = R"({"name": "head", "type": "linear", "out_features": 3})";

TEST(ModelSpec, SimpleCnnHasTheNotebooksShapesAndParameters) {
  const ModelSpec model = load_model_file(model_path("simple_cnn"));
  EXPECT_EQ(model.name, "simple_cnn");
  EXPECT_EQ(model.parameter_count(), 421642);
  EXPECT_EQ(model.classes(), 10);
  ASSERT_EQ(model.layers.size(), 9u);
  EXPECT_EQ(model.layers[0].output_shape, (ops::Shape{32, 28, 28}));
  EXPECT_EQ(model.layers[2].output_shape, (ops::Shape{32, 14, 14}));
  EXPECT_EQ(model.layers[5].output_shape, (ops::Shape{64, 7, 7}));
  EXPECT_EQ(model.layers[8].output_shape, (ops::Shape{10}));
}

TEST(ModelSpec, LenetIsReadFromItsFile) {
  const ModelSpec model = load_model_file(model_path("lenet5"));
  // 6*25+6 + 16*150+16 + 120*400+120 + 84*120+84 + 10*84+10 (LeCun et al., 1998, on 28x28 padded to
  // 32x32).
  EXPECT_EQ(model.parameter_count(), 61706);
  EXPECT_EQ(model.layers[5].output_shape, (ops::Shape{16, 5, 5}));
}

TEST(ModelSpec, HasAHashOfItsContentAlone) {
  const auto hash = [](const std::string& layers, const std::string& rest = "") {
    return content_hash(parse_model(with_layers(layers, rest), "m.json"));
  };
  const std::string conv =
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 0},)";
  const std::uint64_t known = hash(conv + kHead);
  // The same network, said in other words and by another name.
  EXPECT_EQ(known, content_hash(parse_model(
                       R"({ "layers": [{"type": "conv2d", "kernel": [3, 3], "out_channels": 2,
                            "in_channels": 1, "name": "c", "inputs": ["input"]}, )" +
                           kHead + R"(], "input": [1, 8, 8], "name": "other"})",
                       "n.json")));
  const std::string others[] = {
      R"({"name": "d", "type": "conv2d", "out_channels": 2, "kernel": 3},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 3, "kernel": 3},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": [3, 1]},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": [1, 3]},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3, "stride": 2},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},)",
      R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3, "bias": false},)",
      R"({"name": "c", "type": "max_pool2d", "kernel": 3},)",
      conv + R"({"name": "r", "type": "relu"},)",
      ""};
  for (const std::string& other : others) EXPECT_NE(hash(other + kHead), known) << other;
  EXPECT_NE(hash(conv + R"({"name": "head", "type": "linear", "out_features": 4})"), known);
}

TEST(ModelSpec, FillsInTheAttributesThatWereLeftOut) {
  const ModelSpec model =
      parse_model(with_layers(R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3},
                     {"name": "p", "type": "max_pool2d", "kernel": [2, 3]},)" +
                              kHead),
                  "m.json");
  EXPECT_EQ(model.layers[0].inputs, std::vector<int>{-1});
  EXPECT_EQ(model.layers[0].window.stride_h, 1);
  EXPECT_EQ(model.layers[0].window.pad_w, 0);
  EXPECT_TRUE(model.layers[0].bias);
  EXPECT_EQ(model.layers[1].inputs, std::vector<int>{0});
  EXPECT_EQ(model.layers[1].window.stride_h, 2);
  EXPECT_EQ(model.layers[1].window.stride_w, 3);
  EXPECT_EQ(model.layers[1].output_shape, (ops::Shape{2, 3, 2}));
  EXPECT_EQ(model.output, 2);
}

TEST(ModelSpec, OrdersLayersSoThatEachFollowsItsInputs) {
  const ModelSpec model =
      parse_model(with_layers(R"({"name": "sum", "type": "add", "inputs": ["left", "right"]},
                     {"name": "left", "type": "relu", "inputs": ["input"]},
                     {"name": "right", "type": "relu", "inputs": ["left"]},
                     {"name": "fc", "type": "linear", "inputs": ["sum"], "out_features": 2})"),
                  "m.json");
  ASSERT_EQ(model.layers.size(), 4u);
  EXPECT_EQ(model.layers[0].name, "left");
  EXPECT_EQ(model.layers[1].name, "right");
  EXPECT_EQ(model.layers[2].name, "sum");
  EXPECT_EQ(model.layers[2].inputs, (std::vector<int>{0, 1}));
  EXPECT_EQ(model.output, 3);
}

TEST(ModelSpec, WindowsFollowPyTorchsFormula) {
  // floor((8 + 2*1 - 3) / 2) + 1 = 4 rows, floor((8 + 0 - 5) / 3) + 1 = 2 columns.
  const ModelSpec model = parse_model(
      with_layers(
          R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": [3, 5], "stride": [2, 3],
                      "padding": [1, 0], "bias": false},)" +
          kHead),
      "m.json");
  EXPECT_EQ(model.layers[0].output_shape, (ops::Shape{2, 4, 2}));
  EXPECT_EQ(model.parameter_count(), 2 * 15 + 3 * 16 + 3);
}

struct BadModel {
  std::string name;
  std::string text;
  std::string pointer;             // where the message must point
  std::vector<std::string> words;  // what else it must say
};

std::vector<BadModel> bad_models() {
  const auto conv = [](const std::string& more) {
    return with_layers(R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 3)" + more +
                       "}," + kHead);
  };
  return {
      {"NormOfAVector",
       with_layers(kHead + R"(, {"name": "n", "type": "batch_norm2d"})"),
       "m.json at /layers/1:",
       {"batch_norm2d", "[channels, h, w]", "[3]"}},
      {"NormOfOtherChannels",
       with_layers(R"({"name": "n", "type": "batch_norm2d", "num_features": 4}, )" + kHead),
       "m.json at /layers/0/num_features:",
       {"num_features is 4", "[1, 8, 8]"}},
      {"MomentumAboveOne",
       with_layers(R"({"name": "n", "type": "batch_norm2d", "momentum": 1.5}, )" + kHead),
       "m.json at /layers/0/momentum:",
       {"a number from 0 to 1", "1.5"}},
      {"EpsilonThatIsText",
       with_layers(R"({"name": "n", "type": "batch_norm2d", "eps": "tiny"}, )" + kHead),
       "m.json at /layers/0/eps:",
       {"must be a number", "tiny"}},
      {"NotAnObject", "[1]", "m.json at /:", {"must be an object", "[1]"}},
      {"UnknownTopLevelKey",
       with_layers(kHead, R"(, "outputs": "head")"),
       "m.json at /outputs:",
       {"unknown key", R"(did you mean "output"?)"}},
      {"InitOfAnotherType",
       with_layers(kHead, R"(, "init": {"batch_norm2d": 1})"),
       "m.json at /init/batch_norm2d:",
       {"unknown key"}},
      {"InitThatIsNoObject",
       with_layers(kHead, R"(, "init": "normal_fan_out")"),
       "m.json at /init:",
       {"must be an object"}},
      {"MissingName",
       R"({"input": [1, 8, 8], "layers": []})",
       "m.json at /:",
       {R"("name" is missing)"}},
      {"InputOfTwoExtents",
       R"({"name": "m", "input": [8, 8], "layers": []})",
       "m.json at /input:",
       {"[channels, h, w]", "[8, 8]"}},
      {"InputExtentZero",
       R"({"name": "m", "input": [1, 0, 8], "layers": []})",
       "m.json at /input/1:",
       {"from 1 to", "found 0"}},
      {"NoLayers", with_layers(""), "m.json at /layers:", {"layers is empty"}},
      {"LayersNoArray",
       R"({"name": "m", "input": [1, 8, 8], "layers": {}})",
       "m.json at /layers:",
       {"must be an array"}},
      {"LayerNoObject", with_layers("7"), "m.json at /layers/0:", {"must be an object, found 7"}},
      {"UnknownType",
       with_layers(R"({"name": "c", "type": "conv3d", "out_channels": 1, "kernel": 1})"),
       "m.json at /layers/0/type:",
       {R"(unknown layer type "conv3d")", R"(did you mean "conv2d"?)"}},
      {"TypeNearNothing",
       with_layers(R"({"name": "c", "type": "transformer"})"),
       "m.json at /layers/0/type:",
       {"known are conv2d, relu, max_pool2d, linear, add"}},
      {"UnknownLayerKey",
       conv(R"(, "paddding": 1)"),
       "m.json at /layers/0/paddding:",
       {"a layer of type conv2d", R"(did you mean "padding"?)"}},
      {"KeyOfAnotherType",
       with_layers(R"({"name": "r", "type": "relu", "kernel": 2},)" + kHead),
       "m.json at /layers/0/kernel:",
       {"a layer of type relu"}},
      {"MissingLayerName",
       with_layers(R"({"type": "relu"})"),
       "m.json at /layers/0:",
       {R"("name" is missing)"}},
      {"NameWithSlash",
       with_layers(R"({"name": "a/b", "type": "relu"})"),
       "m.json at /layers/0/name:",
       {R"("a/b" is no layer name)"}},
      {"NamedAsTheInput",
       with_layers(R"({"name": "input", "type": "relu"})"),
       "m.json at /layers/0/name:",
       {"the network's input"}},
      {"DuplicateName",
       with_layers(kHead + R"(, {"name": "head", "type": "relu"})"),
       "m.json at /layers/1/name:",
       {R"("head" is already used at /layers/0)"}},
      {"MissingOutChannels",
       with_layers(R"({"name": "c", "type": "conv2d", "kernel": 3})"),
       "m.json at /layers/0:",
       {R"("out_channels" is missing)"}},
      {"MissingKernel",
       with_layers(R"({"name": "c", "type": "max_pool2d"})"),
       "m.json at /layers/0:",
       {R"("kernel" is missing)"}},
      {"FractionalKernel",
       conv(R"(, "stride": 1.5)"),
       "m.json at /layers/0/stride:",
       {"whole number", "found 1.5"}},
      {"NegativePadding",
       conv(R"(, "padding": -1)"),
       "m.json at /layers/0/padding:",
       {"from 0 to", "found -1"}},
      {"HugeNumber",
       conv(R"(, "padding": 18446744073709551615)"),
       "m.json at /layers/0/padding:",
       {"to 1048576, found 18446744073709551615"}},
      {"ThreeStrides",
       conv(R"(, "stride": [1, 1, 1])"),
       "m.json at /layers/0/stride:",
       {"a number or [h, w], found 3 elements"}},
      {"BiasNoBoolean",
       conv(R"(, "bias": 1)"),
       "m.json at /layers/0/bias:",
       {"true or false, found 1"}},
      {"PoolPaddedPastHalf",
       with_layers(R"({"name": "p", "type": "max_pool2d", "kernel": 2, "padding": 2},)" + kHead),
       "m.json at /layers/0:",
       {"[2, 2]", "more than half of the kernel [2, 2]"}},
      {"MissingInput",
       with_layers(R"({"name": "conv1", "type": "relu"},
                                      {"name": "r", "type": "relu", "inputs": ["conv2"]})"),
       "m.json at /layers/1/inputs/0:",
       {R"(reads "conv2", which is no layer)", R"(did you mean "conv1"?)"}},
      {"TwoInputsForRelu",
       with_layers(R"({"name": "r", "type": "relu", "inputs": ["input", "input"]})"),
       "m.json at /layers/0/inputs:",
       {"takes 1 input, found 2"}},
      {"OneInputForAdd",
       with_layers(R"({"name": "a", "type": "add"})"),
       "m.json at /layers/0:",
       {"takes 2 inputs, found 1"}},
      {"InputNoString",
       with_layers(R"({"name": "r", "type": "relu", "inputs": [3]})"),
       "m.json at /layers/0/inputs/0:",
       {"must be a string, found 3"}},
      {"Cycle",
       with_layers(R"({"name": "a", "type": "add", "inputs": ["input", "c"]},
                               {"name": "b", "type": "relu"}, {"name": "c", "type": "relu"})"),
       "m.json at /layers/0:",
       {R"(the layer "a" waits for a cycle)"}},
      {"ReadsItself",
       with_layers(R"({"name": "a", "type": "relu", "inputs": ["a"]})"),
       "m.json at /layers/0:",
       {R"(the layer "a" waits for a cycle)"}},
      {"WrongInChannels",
       conv(R"(, "in_channels": 3)"),
       "m.json at /layers/0/in_channels:",
       {"in_channels is 3", "[1, 8, 8]", "makes 1"}},
      {"WrongInFeatures",
       with_layers(R"({"name": "fc", "type": "linear", "in_features": 65, "out_features": 3})"),
       "m.json at /layers/0/in_features:",
       {"in_features is 65", "[1, 8, 8]", "makes 64"}},
      {"KernelTooLarge",
       with_layers(
           R"({"name": "c", "type": "conv2d", "out_channels": 1, "kernel": 11, "padding": 1})"),
       "m.json at /layers/0:",
       {"[11, 11]", "does not fit", "[1, 8, 8]", "[1, 1]"}},
      {"ConvAfterLinear",
       with_layers(kHead + R"(, {"name": "c", "type": "conv2d", "out_channels": 1, "kernel": 1})"),
       "m.json at /layers/1:",
       {"[channels, h, w]", R"("head" of shape [3])"}},
      {"PoolAfterLinear",
       with_layers(kHead + R"(, {"name": "p", "type": "max_pool2d", "kernel": 1})"),
       "m.json at /layers/1:",
       {"[channels, h, w]", R"("head" of shape [3])"}},
      {"AddOfDifferentShapes",
       with_layers(R"({"name": "p", "type": "max_pool2d", "kernel": 2},
                                              {"name": "a", "type": "add", "inputs": ["input", "p"]})"),
       "m.json at /layers/1:",
       {R"("input" of shape [1, 8, 8])", R"("p" of shape [1, 4, 4])"}},
      {"TooManyElements",
       with_layers(R"({"name": "c", "type": "conv2d", "out_channels": 1048576, "kernel": 1,
                                          "padding": 1048576})"),
       "m.json at /layers/0:",
       {"output", "more than 2147483647 elements"}},
      {"UnknownOutput",
       with_layers(kHead, R"(, "output": "heat")"),
       "m.json at /output:",
       {R"(the output is "heat", which is no layer)", R"(did you mean "head"?)"}},
      {"UnusedLayer",
       with_layers(R"({"name": "r", "type": "relu"},
                                     {"name": "fc", "type": "linear", "inputs": ["input"], "out_features": 2})"),
       "m.json at /layers/0:",
       {R"("fc" does not depend on the layer "r")"}},
      {"NotJson", "{\n  \"name\" 3}", "m.json:", {"not valid JSON: line 2, column 10"}},
      {"NestedTooDeep",
       with_layers(kHead, R"(, "output": )" + std::string(120000, '[')),
       "m.json: /output/0/0",
       {"nested deeper than 16 levels"}},
      {"NestedTooDeepAndClosed",
       with_layers(kHead, R"(, "output": )" + std::string(120000, '[') + std::string(120000, ']')),
       "m.json: /output/0/0",
       {"nested deeper than 16 levels"}},
      {"NulByte", std::string("{}\0{}", 5), "m.json:", {"line 1, column 3", "a NUL byte"}},
      {"NumberBeyondDouble",
       with_layers(kHead, R"(, "output": 1e999)"),
       "m.json:",
       {"not valid JSON", "in /output", "1e999"}},
      {"KeyTwice",
       with_layers(kHead, R"(, "name": "n")"),
       "m.json:",
       {R"(the key "name" is there twice)"}},
  };
}

class WrongModel : public ::testing::TestWithParam<BadModel> {};

TEST_P(WrongModel, IsRefusedWithPlaceAndValues) {
  const std::string message = error_of(GetParam().text);
  EXPECT_THAT(message, HasSubstr(GetParam().pointer));
  for (const std::string& word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
}

INSTANTIATE_TEST_SUITE_P(ModelSpec, WrongModel, ::testing::ValuesIn(bad_models()),
                         [](const auto& instance) { return instance.param.name; });

// A chain of relus before the head.
std::string chain(int relus, bool backwards) {
  std::string layers;
  for (int i = 0; i < relus; ++i) {
    const int at = backwards ? relus - 1 - i : i;
    const std::string input = at == 0 ? "input" : "r" + std::to_string(at - 1);
    layers += fmt::format(R"({{"name": "r{}", "type": "relu", "inputs": ["{}"]}},)", at, input);
  }
  return with_layers(layers + fmt::format(R"({{"name": "head", "type": "linear", "out_features": 3,
                                              "inputs": ["r{}"]}})",
                                          relus - 1));
}

TEST(ModelSpec, HasTenThousandLayersAtMost) {
  EXPECT_EQ(parse_model(chain(9'999, false), "m.json").layers.size(), 10'000u);
  EXPECT_THAT(error_of(chain(10'000, false)),
              AllOf(HasSubstr("m.json at /layers:"), HasSubstr("10000 layers at most"),
                    HasSubstr("this one has 10001")));
}

TEST(ModelSpec, LayersMayStandInAnyOrder) {
  const ModelSpec model = parse_model(chain(2'000, true), "m.json");
  for (int i = 0; i < 2'000; ++i) {
    ASSERT_EQ(model.layers[static_cast<std::size_t>(i)].name, "r" + std::to_string(i));
  }
}

TEST(ModelSpec, MessagesStayShortForNamesOfAnyLength) {
  const std::string endless(100'000, 'x');
  const std::vector<std::string> texts = {
      with_layers(R"({"name": ")" + endless + R"(", "type": "relu"})"),
      with_layers(R"({"name": "r", "type": "relu", "inputs": [")" + endless + R"("]})"),
      with_layers(R"({"name": "r", "type": ")" + endless + R"("})"),
      with_layers(kHead, R"(, "output": ")" + endless + R"(")"),
      with_layers(kHead, R"(, ")" + endless + R"(": 1)")};
  for (const std::string& text : texts) {
    const std::string message = error_of(text);
    EXPECT_THAT(message, HasSubstr("m.json at /"));
    EXPECT_LT(message.size(), 1000u) << message;
  }
}

TEST(ModelSpec, FileThatIsNotThereIsNamed) {
  try {
    load_model_file("no/such/model.json");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no/such/model.json"));
  }
}

}  // namespace
}  // namespace ddpbench::nn
