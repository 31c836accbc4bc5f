// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// AlexNet and VGG-16 of configs/models: torchvision's parameters, names and shapes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/nn/model/model.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

struct ClassicNetwork {
  const char* name;
  const char* title;  // in the file of figures
  std::int64_t parameters, tensors;
  double forward_macs;
  std::vector<std::string> weights;  // the layers that have some, in order
};

// As torchvision counts them (models.alexnet, models.vgg16; multiplications as the table of
// figures has them).
std::vector<ClassicNetwork> classic_networks() {
  return {{"alexnet",
           "AlexNet",
           61'100'840,
           16,
           714'188'480,
           {"features.0", "features.3", "features.6", "features.8", "features.10", "classifier.1",
            "classifier.4", "classifier.6"}},
          {"vgg16",
           "VGG-16",
           138'357'544,
           32,
           15'470'264'320,
           {"features.0", "features.2", "features.5", "features.7", "features.10", "features.12",
            "features.14", "features.17", "features.19", "features.21", "features.24",
            "features.26", "features.28", "classifier.0", "classifier.3", "classifier.6"}}};
}

class Classic : public ::testing::TestWithParam<ClassicNetwork> {};

TEST_P(Classic, HasTorchvisionsTotalsAndNames) {
  const ModelSpec model = load_model_file(model_path(GetParam().name));
  EXPECT_EQ(model.name, GetParam().name);
  EXPECT_EQ(model.parameter_count(), GetParam().parameters);
  EXPECT_EQ(model.tensor_count(), GetParam().tensors);
  EXPECT_EQ(model.classes(), 1000);
  EXPECT_EQ(model.input_shape, (ops::Shape{3, 224, 224}));
  EXPECT_EQ(cost_of(model).forward_flops, 2 * GetParam().forward_macs);
  std::vector<std::string> weights;
  for (const LayerSpec& layer : model.layers) {
    if (has_weights(layer.type)) weights.push_back(layer.name);
  }
  EXPECT_EQ(weights, GetParam().weights);
}

// The layers that the file of figures has: those with weights, and maximum pools.
TEST_P(Classic, HasTheShapesOfTheFileOfFigures) {
  const std::string path = std::string(DDPBENCH_SOURCE_DIR) + "/../shared/model-layers.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::ifstream file(path);
  nlohmann::json figures;
  for (const auto& network : nlohmann::json::parse(file)) {
    if (network["model"] == GetParam().title) figures = network["layers"];
  }
  ASSERT_FALSE(figures.is_null());
  const ModelSpec model = load_model_file(model_path(GetParam().name));
  std::size_t next = 0;
  for (const LayerSpec& layer : model.layers) {
    if (!has_weights(layer.type) && layer.type != LayerType::max_pool2d) continue;
    ASSERT_LT(next, figures.size());
    const nlohmann::json& want = figures[next++];
    SCOPED_TRACE(layer.name + " is " + want["name"].get<std::string>());
    const ops::Shape input = model.inputs_of(layer)[0];
    const auto tensors = model.plan_of(layer).parameters;
    const bool flat = layer.type == LayerType::linear;
    EXPECT_EQ(nlohmann::json(flat ? ops::Shape{ops::element_count(input)} : input),
              want["in_shape"]);
    EXPECT_EQ(nlohmann::json(layer.output_shape), want["out_shape"]);
    std::int64_t parameters = 0;
    for (const auto& tensor : tensors) parameters += ops::element_count(tensor.shape);
    EXPECT_EQ(parameters, want["params"].get<std::int64_t>());
    if (!want["weight_shape"].is_null()) {
      EXPECT_EQ(nlohmann::json(tensors[0].shape), want["weight_shape"]);
    }
  }
  EXPECT_EQ(next, figures.size());
}

INSTANTIATE_TEST_SUITE_P(Networks, Classic, ::testing::ValuesIn(classic_networks()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace ddpbench::nn
