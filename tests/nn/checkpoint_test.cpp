// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Weights leave and enter a graph in PyTorch's names, shapes and order, in any layout.
#include "kernels/nn/weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "base/error.h"
#include "kernels/nn/checkpoint.h"
#include "kernels/nn/model/model_reader.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// Every weight has its own value: its position in PyTorch's flattening.
std::vector<NamedTensor> numbered(const Graph& graph) {
  std::vector<NamedTensor> tensors = export_weights(graph);
  for (NamedTensor& tensor : tensors) {
    for (std::size_t k = 0; k < tensor.values.size(); ++k) {
      tensor.values[k] = static_cast<float>(k) * 0x1p-20f;
    }
  }
  return tensors;
}

void expect_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(names_of(a), names_of(b));
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].shape, b[i].shape);
    EXPECT_EQ(a[i].values, b[i].values) << a[i].name;
  }
}

TEST(Checkpoint, HasPyTorchsNamesShapesAndOrder) {
  TestGraph test(simple_cnn(), onednn, {.batch = 8, .micro_batch = 4});
  const std::vector<NamedTensor> tensors = export_weights(test.graph());
  EXPECT_EQ(names_of(tensors),
            (std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                      "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"}));
  EXPECT_EQ(tensors[2].shape, (ops::Shape{64, 32, 3, 3}));
  EXPECT_EQ(tensors[4].shape, (ops::Shape{128, 3136}));
  EXPECT_EQ(tensors[7].shape, (ops::Shape{10}));
}

// By the network's description alone, as headers of files are compared with it.
TEST(Checkpoint, HasTheTensorsThatItsNetworkTells) {
  for (const ModelSpec& model : {simple_cnn(), residual_network(), normalized_network()}) {
    TestGraph test(model, onednn, {.batch = 2});
    EXPECT_EQ(checkpoint_tensors(model), infos_of(export_checkpoint(test.graph()))) << model.name;
  }
}

// The weights of frozen layers follow those that are trained, in the file and back into the graph.
TEST(Checkpoint, KeepsFrozenLayers) {
  ModelSpec model = normalized_network();
  for (std::size_t i = 0; i < model.layers.size(); i += 2) model.layers[i].trainable = false;
  TestGraph test(model, onednn, {.batch = 2}), other(model, onednn, {.batch = 2});
  std::vector<NamedTensor> tensors = export_checkpoint(test.graph());
  EXPECT_EQ(checkpoint_tensors(model), infos_of(tensors));
  EXPECT_EQ(
      tensors.size(),
      export_checkpoint(TestGraph(normalized_network(), onednn, {.batch = 2}).graph()).size());
  for (NamedTensor& tensor : tensors) {
    for (std::size_t k = 0; k < tensor.values.size(); ++k) {
      tensor.values[k] = static_cast<float>(k + tensor.name.size()) * 0x1p-10f;
    }
  }
  import_checkpoint(other.graph(), tensors, "test");
  expect_equal(export_checkpoint(other.graph()), tensors);
}

TEST(Checkpoint, ImportThenExportChangesNothing) {
  TestGraph test(simple_cnn(), onednn, {.batch = 8, .micro_batch = 0});
  const std::vector<NamedTensor> tensors = numbered(test.graph());
  import_checkpoint(test.graph(), tensors, "test");
  expect_equal(export_weights(test.graph()), tensors);
}

TEST(Checkpoint, BlockedAndPlainGraphsComputeTheSameFromOneFile) {
  TestGraph plain(simple_cnn(), reference, {.batch = 3});
  TestGraph blocked(simple_cnn(), onednn, {.batch = 3});
  std::vector<NamedTensor> tensors = export_weights(plain.graph());
  // These weights differ from the initial ones, so that only the import can make the graphs equal.
  for (NamedTensor& tensor : tensors) {
    for (float& value : tensor.values) value = -value;
  }
  import_checkpoint(plain.graph(), tensors, "test");
  import_checkpoint(blocked.graph(), tensors, "test");
  expect_equal(export_weights(blocked.graph()), tensors);
  const std::vector<float> expected = plain.forward(), actual = blocked.forward();
  // A logit is a sum of 128 sums of 3136 (of 288, of 9) products. 3136 * 2^-24 relative to the size
  // of the logits covers the rounding of the longest; the others are much smaller.
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 3136 * 0x1p-24f * largest);
  }
}

class WrongTensors : public ::testing::Test {
 protected:
  WrongTensors() : test_(simple_cnn(), onednn, {.batch = 1}), tensors_(numbered(test_.graph())) {}

  // Imports tensors_, which must fail and leave the weights unchanged. Returns the message.
  std::string error() {
    const std::vector<NamedTensor> before = export_weights(test_.graph());
    std::string message;
    try {
      import_checkpoint(test_.graph(), tensors_, "w.safetensors");
    } catch (const ConfigError& e) {
      message = e.what();
    }
    expect_equal(export_weights(test_.graph()), before);
    return message;
  }

  TestGraph test_;
  std::vector<NamedTensor> tensors_;
};

TEST_F(WrongTensors, MissingOnesAreNamed) {
  tensors_.erase(tensors_.begin() + 2);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("w.safetensors"), HasSubstr(": 1 missing (\"conv2.weight\")")));
}

TEST_F(WrongTensors, SurplusOnesAreNamed) {
  tensors_.push_back({"fc3.bias", {1}, {0}});
  EXPECT_THAT(error(), HasSubstr(": 1 surplus (\"fc3.bias\")"));
}

TEST_F(WrongTensors, RenamedOnesAreMissingAndSurplus) {
  tensors_[0].name = "conv0.weight";
  EXPECT_THAT(error(), HasSubstr(": 1 missing (\"conv1.weight\"), 1 surplus (\"conv0.weight\")"));
}

TEST(Checkpoint, OfAWrappedNetworkIsReadWithoutThePrefix) {
  TestGraph from(simple_cnn(), onednn, {.batch = 1}), to(simple_cnn(), onednn, {.batch = 1});
  const std::vector<NamedTensor> tensors = numbered(from.graph());
  for (const std::string prefix :
       {"module.", "_orig_mod.", "model.", "module._orig_mod.", "model._orig_mod.module."}) {
    std::vector<NamedTensor> wrapped = tensors;
    for (NamedTensor& tensor : wrapped) tensor.name = prefix + tensor.name;
    EXPECT_EQ(wrapper_prefix(simple_cnn(), infos_of(wrapped)), prefix);
    initialize_parameters(to.graph(), 1);
    import_checkpoint(to.graph(), wrapped, "test");
    expect_equal(export_weights(to.graph()), tensors);
  }
  EXPECT_EQ(wrapper_prefix(simple_cnn(), infos_of(tensors)), "");
  // A layer may have such a name itself.
  const ModelSpec own = parse_model(
      R"({"name": "own", "input": [1, 2, 2], "layers": [
           {"name": "module.fc", "type": "linear", "out_features": 2}]})",
      "own.json");
  EXPECT_EQ(wrapper_prefix(own, checkpoint_tensors(own)), "");
  EXPECT_EQ(wrapper_prefix(own, {}), "");
  for (const char* second : {"fc", "model.fc2"}) {  // so may some or all of them
    const ModelSpec model =
        parse_model(fmt::format(R"({{"name": "own", "input": [1, 2, 2], "layers": [
             {{"name": "model.fc1", "type": "linear", "out_features": 4}},
             {{"name": "{}", "type": "linear", "out_features": 2}}]}})",
                                second),
                    "own.json");
    std::vector<TensorInfo> saved = checkpoint_tensors(model);
    for (TensorInfo& tensor : saved) tensor.name = "module." + tensor.name;
    EXPECT_EQ(wrapper_prefix(model, saved), "module.");
  }
}

TEST_F(WrongTensors, ThePrefixOfSomeIsNone) {
  tensors_[0].name = "module.conv1.weight";
  EXPECT_THAT(error(), HasSubstr("1 surplus (\"module.conv1.weight\")"));
}

TEST_F(WrongTensors, OtherShapesAreNamedWithBoth) {
  tensors_[6].shape = {128, 10};
  EXPECT_THAT(error(), HasSubstr(": 1 of another shape or type (\"fc2.weight\" has the shape "
                                 "[128, 10], needs [10, 128])"));
}

TEST_F(WrongTensors, AllDifferencesAreToldAtOnce) {
  tensors_[0].shape = {32, 3, 3, 1};
  tensors_[6].shape = {128, 10};
  tensors_[7].name = "fc3.bias";
  tensors_.erase(tensors_.begin() + 2);
  EXPECT_THAT(
      error(),
      HasSubstr("w.safetensors: the tensors are not those of the model simple_cnn: 2 missing "
                "(\"conv2.weight\", \"fc2.bias\"), 1 surplus (\"fc3.bias\"), 2 of another "
                "shape or type (\"conv1.weight\" has the shape [32, 3, 3, 1], needs [32, 1, "
                "3, 3]; \"fc2.weight\" has the shape [128, 10], needs [10, 128])"));
}

TEST_F(WrongTensors, AtMostEightOfAKindAreNamedAndAllAreCounted) {
  for (char letter = 'a'; letter < 'l'; ++letter) {
    tensors_.push_back({std::string("x.") + letter, {1}, {0}});
  }
  EXPECT_THAT(error(), HasSubstr(": 11 surplus (\"x.a\", \"x.b\", \"x.c\", \"x.d\", \"x.e\", "
                                 "\"x.f\", \"x.g\", \"x.h\", and 3 more)"));
}

TEST(Checkpoint, ImportsValuesInTheOrderOfItsTensors) {
  TestGraph from(simple_cnn(), onednn, {.batch = 4, .micro_batch = 0});
  TestGraph to(simple_cnn(), reference, {.batch = 4, .micro_batch = 0});
  const std::vector<NamedTensor> tensors = numbered(from.graph());
  std::vector<float> values;
  for (const NamedTensor& tensor : tensors) {
    values.insert(values.end(), tensor.values.begin(), tensor.values.end());
  }
  import_values(to.graph(), values);
  expect_equal(export_weights(to.graph()), tensors);
  EXPECT_THROW(import_values(to.graph(), std::span(values).first(values.size() - 1)),
               InternalError);
  values.push_back(0);
  EXPECT_THROW(import_values(to.graph(), values), InternalError);
}

TEST(Checkpoint, NamesTheFirstWeightsThatAreNotFinite) {
  TestGraph network(simple_cnn(), onednn, {.batch = 4, .micro_batch = 0});
  EXPECT_EQ(find_not_finite(network.graph(), network.device()), "");
  const std::vector<ParameterInfo>& parameters = network.graph().plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {  // the last layer's first
    std::vector<float> values = network.weight(i);
    values.back() = i % 2 == 0 ? HUGE_VALF : std::nanf("");
    network.set_weight(i, values);
    EXPECT_EQ(find_not_finite(network.graph(), network.device()), parameters[i].name);
  }
}

TEST(Checkpoint, NamesTheFirstStateThatIsNotFinite) {
  TestGraph network(normalized_network(), onednn, {.batch = 4, .micro_batch = 0});
  EXPECT_EQ(find_not_finite(network.graph(), network.device()), "");
  const std::vector<NamedTensor> tensors = export_state(network.graph());
  std::vector<double> state = flat_state(tensors);
  state.at(tensors[0].values.size()) = HUGE_VAL;  // the first of the second tensor
  import_state_values(network.graph(), state);
  EXPECT_EQ(find_not_finite(network.graph(), network.device()), tensors[1].name);
}

TEST(Checkpoint, NamesTheFirstValueThatIsNoFiniteNumber) {
  std::vector<NamedTensor> tensors = {{"a", {2}, {1, 2}}, {"b", {3}, {0, -3, 1}}};
  EXPECT_NO_THROW(check_finite(tensors, "w.safetensors"));
  tensors[1].values[2] = std::nanf("");
  EXPECT_THAT([&] { check_finite(tensors, "w.safetensors"); },
              testing::ThrowsMessage<ConfigError>(AllOf(
                  HasSubstr("w.safetensors"), HasSubstr("value 2 of the tensor \"b\" is nan"))));
}

}  // namespace
}  // namespace ddpbench::nn
