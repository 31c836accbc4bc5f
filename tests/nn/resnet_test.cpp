// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The residual networks of configs/models, DeepLabv3's too: parameters, names and shapes as
// torchvision has them. tests/nn/figures has a line for each layer of four of them that has
// parameters or pools: name, shape of input and output, number of parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

struct Totals {
  std::string name;
  std::int64_t parameters, tensors, classes;
  ops::Shape input;
};

std::vector<Totals> residual_networks() {
  const ops::Shape image = {3, 224, 224};
  return {{"resnet18", 11'689'512, 62, 1000, image},
          {"resnet34", 21'797'672, 110, 1000, image},
          {"resnet50", 25'557'032, 161, 1000, image},
          {"resnet101", 44'549'160, 314, 1000, image},
          {"resnet152", 60'192'808, 467, 1000, image},
          {"resnext50_32x4d", 25'028'904, 161, 1000, image},
          {"deeplabv3_resnet101", 60'996'202, 340, 21, {3, 513, 513}},
          // He et al. (CVPR 2016), section 4.2, n = 3, with projections (their option B): 269,722
          // parameters of the network whose shortcuts have none, and 16 * 32 + 2 * 32 + 32 * 64 +
          // 2 * 64 of the two projections with their batch norms.
          {"resnet20", 272'474, 65, 10, {3, 32, 32}}};
}

class ResidualNetwork : public ::testing::TestWithParam<Totals> {};

TEST_P(ResidualNetwork, HasThePublishedNumberOfParameters) {
  const ModelSpec model = load_model_file(model_path(GetParam().name));
  EXPECT_EQ(model.name, GetParam().name);
  EXPECT_EQ(model.parameter_count(), GetParam().parameters);
  EXPECT_EQ(model.tensor_count(), GetParam().tensors);
  EXPECT_EQ(model.classes(), GetParam().classes);
  EXPECT_EQ(model.input_shape, GetParam().input);
}

INSTANTIATE_TEST_SUITE_P(Networks, ResidualNetwork, ::testing::ValuesIn(residual_networks()),
                         [](const auto& instance) { return instance.param.name; });

struct LayerFigures {
  std::string name, input, output;
  std::int64_t parameters = 0;
};

std::vector<LayerFigures> recorded_figures(const std::string& network) {
  std::ifstream file(std::string(DDPBENCH_SOURCE_DIR) + "/tests/nn/figures/" + network + ".txt");
  std::vector<LayerFigures> figures;
  for (LayerFigures line; file >> line.name >> line.input >> line.output >> line.parameters;) {
    figures.push_back(line);
  }
  return figures;
}

// "64x56x56"
std::string extents(const ops::Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape) {
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  }
  return text;
}

TEST(ResidualNetworks, HaveTorchvisionsLayers) {
  for (const char* network : {"resnet18", "resnet50", "resnet101", "resnet152"}) {
    const ModelSpec model = load_model_file(model_path(network));
    const std::vector<LayerFigures> figures = recorded_figures(network);
    ASSERT_GT(figures.size(), 40u) << network;
    std::int64_t parameters = 0;
    for (const LayerFigures& want : figures) {
      SCOPED_TRACE(std::string(network) + " " + want.name);
      const auto layer = std::ranges::find(model.layers, want.name, &LayerSpec::name);
      ASSERT_NE(layer, model.layers.end());
      EXPECT_EQ(extents(model.inputs_of(*layer)[0]), want.input);
      EXPECT_EQ(extents(layer->output_shape), want.output);
      std::int64_t count = 0;
      for (const auto& tensor : model.plan_of(*layer).parameters) {
        count += ops::element_count(tensor.shape);
      }
      EXPECT_EQ(count, want.parameters);
      parameters += count;
    }
    EXPECT_EQ(parameters, model.parameter_count()) << network;
  }
}

double largest_of(const std::vector<float>& values) {
  double largest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// The networks whose blocks and layer types differ. In batches of one: their last maps still have
// 49 pixels, so that batch norm has a variance.
TEST(ResidualNetworks, RunAStep) {
  for (const char* network : {"resnet20", "resnet18", "resnext50_32x4d"}) {
    SCOPED_TRACE(network);
    TestGraph test(load_model_file(model_path(network)), onednn, {.batch = 1});
    test.train();
    const auto& parameters = test.graph().plan().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const double largest = largest_of(test.gradient(i));
      EXPECT_GT(largest, 0) << parameters[i].name;
      EXPECT_LT(largest, 1e6) << parameters[i].name;
    }
    const double logits = largest_of(test.forward());
    EXPECT_GT(logits, 0);
    EXPECT_LT(logits, 1e6);
  }
}

// Both backends round each map to 2^-24 of its values, Winograd's transforms ten times as much.
// Batch norm keeps the size of maps and of their errors, and 20 layers add theirs up: 200 * 2^-24
// = 1.2e-5 of the logits where errors only add, and 1e-4 leaves room for the cancellations in
// deviations.
TEST(ResidualNetworks, GiveTheReferencesLogits) {
  const ModelSpec model = load_model_file(model_path("resnet20"));
  TestGraph want(model, reference, {.batch = 2}), got(model, onednn, {.batch = 2});
  const std::vector<float> expected = want.forward(), logits = got.forward();
  ASSERT_EQ(logits.size(), expected.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    EXPECT_NEAR(logits[i], expected[i], 1e-4 * largest_of(expected)) << i;
  }
}

}  // namespace
}  // namespace ddpbench::nn
