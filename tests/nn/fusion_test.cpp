// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The layers that run as one operation.
#include "kernels/nn/plan/fusion.h"
#include "kernels/nn/model/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> node_names(const std::string& layers) {
  const ModelSpec model =
      parse_model(R"({"name": "m", "input": [1, 8, 8], "layers": [)" + layers + "]}", "m.json");
  std::vector<std::string> names;
  for (const FusedNode& node : fuse_layers(model)) names.push_back(node.name);
  return names;
}

const std::string kConv = R"({"name": "c", "type": "conv2d", "out_channels": 2, "kernel": 1})";
const std::string kRelu = R"({"name": "r", "type": "relu"})";
const std::string kPool = R"({"name": "p", "type": "max_pool2d", "kernel": 2})";
const std::string kLinear = R"({"name": "fc", "type": "linear", "out_features": 2})";

TEST(Fusion, RectifiesInTheConvolution) {
  EXPECT_THAT(node_names(kConv + "," + kRelu + "," + kLinear), ElementsAre("c+r", "fc"));
}

TEST(Fusion, RectifiesInTheLinearLayer) {
  EXPECT_THAT(node_names(kLinear + "," + kRelu), ElementsAre("fc+r"));
}

TEST(Fusion, RectifiesInThePoolRatherThanInTheConvolution) {
  EXPECT_THAT(node_names(kConv + "," + kRelu + "," + kPool + "," + kLinear),
              ElementsAre("c", "r+p", "fc"));
}

TEST(Fusion, KeepsAReluAfterAPoolApart) {
  EXPECT_THAT(node_names(kPool + "," + kRelu + "," + kLinear), ElementsAre("p", "r", "fc"));
}

TEST(Fusion, RectifiesTheNetworksInputInThePool) {
  const ModelSpec model = parse_model(R"({"name": "m", "input": [1, 8, 8], "layers": [)" + kRelu +
                                          "," + kPool + "," + kLinear + "]}",
                                      "m.json");
  const std::vector<FusedNode> nodes = fuse_layers(model);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].name, "r+p");
  EXPECT_TRUE(nodes[0].fuse_relu);
  EXPECT_THAT(nodes[0].inputs, ElementsAre(kNetworkInput));
}

TEST(Fusion, RectifiesAndAddsInBatchNorm) {
  std::vector<std::string> names;
  const std::vector<FusedNode> nodes = fuse_layers(normalized_network());
  for (const FusedNode& node : nodes) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("stem", "stem_norm+stem_relu", "left", "left_norm", "right",
                                 "right_norm+sum+sum_relu", "last_norm", "pool", "head"));
  EXPECT_TRUE(nodes[5].fuse_add);
  EXPECT_TRUE(nodes[5].fuse_relu);
  EXPECT_THAT(nodes[5].inputs, ElementsAre(4, 3));
}

const std::string kNorm = R"({"name": "n", "type": "batch_norm2d"})";
const std::string kSum = R"({"name": "s", "type": "add", "inputs": ["n", "c"]})";

TEST(Fusion, AddsInBatchNormWhereAReluIsBehindTheSum) {
  EXPECT_THAT(node_names(kConv + "," + kNorm + "," + kSum + "," + kRelu + "," + kLinear),
              ElementsAre("c", "n+s+r", "fc"));
  EXPECT_THAT(node_names(kConv + "," + kNorm + "," + kSum + "," + kLinear),
              ElementsAre("c", "n", "s", "fc"));
  const std::string twice = R"({"name": "s", "type": "add", "inputs": ["n", "n"]})";
  EXPECT_THAT(node_names(kConv + "," + kNorm + "," + twice + "," + kRelu + "," + kLinear),
              ElementsAre("c", "n", "s", "r", "fc"));
}

TEST(Fusion, LeavesATensorWithTwoReadersAlone) {
  // The sum reads the convolution's own output, so it must exist.
  EXPECT_THAT(node_names(kConv + "," + kRelu +
                         R"(, {"name": "a", "type": "add", "inputs": ["c", "r"]},)" + kLinear),
              ElementsAre("c", "r", "a", "fc"));
  // The same holds for a rectified map that a pool and a sum read.
  EXPECT_THAT(node_names(R"({"name": "r", "type": "relu"},
                            {"name": "p", "type": "max_pool2d", "kernel": 1},
                            {"name": "a", "type": "add", "inputs": ["p", "r"]},)" +
                         kLinear),
              ElementsAre("r", "p", "a", "fc"));
}

TEST(Fusion, ConnectsNodesOfABranchedNetwork) {
  const ModelSpec model = residual_network();
  const std::vector<FusedNode> nodes = fuse_layers(model);
  std::vector<std::string> names;
  for (const FusedNode& node : nodes) names.push_back(node.name);
  ASSERT_THAT(names,
              ElementsAre("stem+stem_relu", "left+left_relu", "right", "branches", "skip",
                          "skip_relu+pool", "hidden+hidden_relu", "again", "hidden_sum", "head"));
  EXPECT_THAT(nodes[3].inputs, ElementsAre(1, 2));
  EXPECT_THAT(nodes[4].inputs, ElementsAre(3, 0));
  EXPECT_THAT(nodes[5].inputs, ElementsAre(4));
}

}  // namespace
}  // namespace ddpbench::nn
