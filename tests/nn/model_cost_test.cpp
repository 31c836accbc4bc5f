// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The costs of networks, as counted by hand.
#include "kernels/nn/model/model.h"

#include <gtest/gtest.h>

#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

// By hand, with the layers' sizes as in configs/models/simple_cnn.json.
TEST(ModelCost, OfSimpleCnnIsAsCountedByHand) {
  const ModelCost cost = cost_of(simple_cnn());
  EXPECT_EQ(cost.parameters, 421642);
  EXPECT_EQ(cost.gradient_bytes(), 4 * 421642);
  const double conv1 = 28.0 * 28 * 32 * 9, conv2 = 14.0 * 14 * 64 * 32 * 9;
  const double fc1 = 3136.0 * 128, fc2 = 128.0 * 10;
  EXPECT_DOUBLE_EQ(cost.forward_flops, 2 * (conv1 + conv2 + fc1 + fc2));
  // The images need no gradient.
  EXPECT_DOUBLE_EQ(cost.backward_flops, 2 * (conv1 + 2 * (conv2 + fc1 + fc2)));
  // Convolutions, pools, linear layers; ReLUs are in place.
  EXPECT_EQ(cost.activation_bytes,
            4 * (28 * 28 * 32 + 14 * 14 * 32 + 14 * 14 * 64 + 7 * 7 * 64 + 128 + 10));
  EXPECT_DOUBLE_EQ(cost.gradient_bytes_per_flop(),
                   4 * 421642 / (cost.forward_flops + cost.backward_flops));
}

TEST(ModelCost, OfFrozenLayersIsTheirForwardPassAndWhatOthersNeedBehindThem) {
  const ModelCost whole = cost_of(simple_cnn());
  ModelSpec model = simple_cnn();
  const auto freeze = [&](std::string_view name) {
    for (LayerSpec& layer : model.layers) {
      if (layer.name == name) layer.trainable = false;
    }
    return cost_of(model);
  };
  const double conv1 = 2 * 28.0 * 28 * 32 * 9, conv2 = 2 * 14.0 * 14 * 64 * 32 * 9;
  const double fc1 = 2 * 3136.0 * 128;
  const ModelCost with_fc1 = freeze("fc1");
  EXPECT_EQ(with_fc1.parameters, 421642);
  EXPECT_EQ(with_fc1.trained, 421642 - 3136 * 128 - 128);
  EXPECT_EQ(with_fc1.gradient_bytes(), 4 * with_fc1.trained);
  EXPECT_DOUBLE_EQ(with_fc1.forward_flops, whole.forward_flops);
  EXPECT_DOUBLE_EQ(with_fc1.backward_flops, whole.backward_flops - fc1);
  EXPECT_DOUBLE_EQ(freeze("conv1").backward_flops, whole.backward_flops - fc1 - conv1 - conv2);
}

TEST(ModelCost, KeepsWhatAReluAndAnotherLayerRead) {
  const auto model = [](const char* rest) {
    return parse_model(std::string(R"({"name": "n", "input": [1, 4, 4], "layers": [
        {"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 1},
        {"name": "relu", "type": "relu"},)") +
                           rest + R"({"name": "fc", "type": "linear", "out_features": 3}]})",
                       "n.json");
  };
  EXPECT_EQ(cost_of(model("")).activation_bytes, 4 * (32 + 3));
  EXPECT_EQ(cost_of(model(R"({"name": "sum", "type": "add", "inputs": ["conv", "relu"]},)"))
                .activation_bytes,
            4 * (32 + 32 + 32 + 3));
}

TEST(ModelCost, OfANetworkWithoutProductsHasNoRatio) {
  const ModelSpec none;
  EXPECT_EQ(cost_of(none).gradient_bytes_per_flop(), 0);
}

}  // namespace
}  // namespace ddpbench::nn
