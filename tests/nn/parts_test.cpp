// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of a network, one behind the other, compute what the whole computes; where cuts are, and
// which are chosen.
#include "kernels/nn/model/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kPartBatch = 4;

std::vector<std::string> names_of_cuts(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const Cut& cut : possible_cuts(model)) {
    names.push_back(model.layers[static_cast<std::size_t>(cut.layer)].name);
  }
  return names;
}

std::map<std::string, std::vector<float>> named_gradients(TestGraph& test) {
  std::map<std::string, std::vector<float>> gradients;
  const auto& parameters = test.graph().plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    gradients[parameters[i].name] = test.gradient(i);
  }
  return gradients;
}

std::size_t elements(const ops::Shape& shape) {
  return static_cast<std::size_t>(kPartBatch * ops::element_count(shape));
}

void expect_alike(const std::vector<float>& found, const std::vector<float>& expected,
                  const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4F * largest) << what << " " << i;
  }
}

// Runs the parts before and behind one cut, and compares them with the whole.
void expect_equal_parts(const ModelSpec& model, int cut, const BackendMaker& backend) {
  TestGraph whole(model, backend, {.batch = kPartBatch, .micro_batch = 0});
  TestGraph first(part_of(model, {cut}, 0), backend, {.batch = kPartBatch, .micro_batch = 0});
  TestGraph second(part_of(model, {cut}, 1), backend,
                   {.batch = kPartBatch, .input_gradient = true, .micro_batch = 0});
  whole.train();
  Graph& front = first.graph();
  Graph& back = second.graph();
  front.forward(first.stream(), whole.input());
  back.forward(second.stream(), front.output());
  const std::size_t logits = elements(model.logits_shape());
  expect_alike({back.output(), back.output() + logits},
               {whole.graph().output(), whole.graph().output() + logits}, "logits");
  std::copy_n(whole.coefficients().begin(), logits, back.output_gradient());
  back.backward(second.stream());
  std::copy_n(back.input_gradient(), elements(back.model().input_shape), front.output_gradient());
  front.backward(first.stream());
  auto gradients = named_gradients(first);
  gradients.merge(named_gradients(second));
  for (const auto& [name, expected] : named_gradients(whole)) {
    expect_alike(gradients.at(name), expected, name);
  }
}

TEST(Parts, ComputeWhatTheWholeComputes) {
  for (const ModelSpec& model : {residual_network(), normalized_network()}) {
    const std::vector<Cut> cuts = possible_cuts(model);
    EXPECT_FALSE(cuts.empty()) << model.name;
    for (const Cut& cut : cuts) {
      SCOPED_TRACE(model.layers[static_cast<std::size_t>(cut.layer)].name);
      expect_equal_parts(model, cut.layer, reference);
      expect_equal_parts(model, cut.layer, onednn);
    }
  }
}

TEST(Cuts, AreWhereOneValueCrosses) {
  EXPECT_THAT(names_of_cuts(simple_cnn()),
              ElementsAre("conv1", "relu1", "pool1", "conv2", "relu2", "pool2", "fc1", "relu3"));
  // pool and a convolution read the stem, so that none is possible until they are joined.
  const ModelSpec forked = forked_network();
  EXPECT_EQ(names_of_cuts(forked)[0], forked.layers[0].name);
  try {
    choose_cuts(forked, 2, {"pool"}, "--cut=pool");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--cut=pool: behind the layer \"pool\" of"));
    EXPECT_THAT(error.what(), HasSubstr("other than one value crosses"));
  }
}

std::string refusal_of_cuts(int parts, const std::vector<std::string>& wanted) {
  try {
    choose_cuts(simple_cnn(), parts, wanted, "--cut");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Cuts, BalanceOperationsAndPreferSmallValues) {
  const ModelSpec model = simple_cnn();
  const std::vector<int> cuts = choose_cuts(model, 2, {}, "--stages=2");
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(model.layers[static_cast<std::size_t>(cuts[0])].name, "pool2");
  EXPECT_EQ(choose_cuts(model, 4, {}, "--stages=4").size(), 3u);
  EXPECT_THAT(refusal_of_cuts(5, {}),
              HasSubstr("do not make 5 parts that have something to train"));
  EXPECT_THAT(refusal_of_cuts(2, {"pool3"}), HasSubstr("has no layer \"pool3\""));
  EXPECT_THAT(refusal_of_cuts(3, {"pool1"}), HasSubstr("1 cuts make 2 parts, not 3"));
  EXPECT_THAT(refusal_of_cuts(3, {"pool2", "pool1"}),
              HasSubstr("the layer \"pool1\" does not come behind the cut before it"));
  EXPECT_THAT(refusal_of_cuts(3, {"conv1", "pool1"}),
              HasSubstr("the layers from \"relu1\" to \"pool1\" have nothing to train"));
}

}  // namespace
}  // namespace ddpbench::nn
