// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Order, offsets and hash of the flat parameter buffer.
#include "kernels/nn/plan/parameter_plan.h"

#include <gtest/gtest.h>

namespace ddpbench::nn {
namespace {

using ops::TensorLayout;

std::vector<LayerParameters> two_layers() {
  return {{"conv",
           {{"weight", {2, 1, 3, 3}, TensorLayout::plain({2, 1, 3, 3}), 9},
            {"bias", {2}, TensorLayout::plain({2}), 9}}},
          {"fc", {{"weight", {5, 8}, TensorLayout::plain({5, 8}), 8}}}};
}

TEST(ParameterLayout, ReversesPyTorchsOrder) {
  const ParameterPlan plan = plan_parameters(two_layers());
  ASSERT_EQ(plan.parameters.size(), 3u);
  EXPECT_EQ(plan.parameters[0].name, "fc.weight");
  EXPECT_EQ(plan.parameters[1].name, "conv.bias");
  EXPECT_EQ(plan.parameters[2].name, "conv.weight");
}

TEST(ParameterLayout, StartsEachParameterAtACacheLine) {
  const ParameterPlan plan = plan_parameters(two_layers());
  EXPECT_EQ(plan.parameters[0].offset_bytes, 0u);
  EXPECT_EQ(plan.parameters[1].offset_bytes, 192u);  // after 160 bytes
  EXPECT_EQ(plan.parameters[2].offset_bytes, 256u);
  EXPECT_EQ(plan.flat_bytes, 384u);  // 72 bytes more
}

TEST(ParameterLayout, PlacesTheStateInTheOrderOfTheLayers) {
  auto layers = two_layers();
  layers[0].state = {{.name = "mean", .shape = {20}},
                     {.name = "count", .shape = {}, .type = DataType::int64, .start = 5}};
  layers[1].state = {{.name = "mean", .shape = {1}}};
  const ParameterPlan plan = plan_parameters(layers);
  ASSERT_EQ(plan.state.size(), 3u);
  EXPECT_EQ(plan.state[0].name, "conv.mean");
  EXPECT_EQ(plan.state[0].bytes, 80u);
  EXPECT_EQ(plan.state[1].name, "conv.count");
  EXPECT_EQ(plan.state[1].offset_bytes, 128u);
  EXPECT_EQ(plan.state[1].bytes, 8u);
  EXPECT_EQ(plan.state[1].start, 5);
  EXPECT_EQ(plan.state[2].name, "fc.mean");
  EXPECT_EQ(plan.state[2].offset_bytes, 192u);
  EXPECT_EQ(plan.state_bytes, 256u);
  EXPECT_EQ(plan.flat_bytes, plan_parameters(two_layers()).flat_bytes);
}

TEST(ParameterLayout, PlacesFrozenLayersBehindAllThatIsTrained) {
  auto layers = two_layers();
  layers[1].trainable = false;
  const ParameterPlan plan = plan_parameters(layers);
  ASSERT_EQ(plan.parameters.size(), 2u);
  EXPECT_EQ(plan.parameters[0].name, "conv.bias");
  EXPECT_EQ(plan.parameters[1].name, "conv.weight");
  EXPECT_EQ(plan.flat_bytes, 192u);
  ASSERT_EQ(plan.frozen.size(), 1u);
  EXPECT_EQ(plan.frozen[0].offset_bytes, 192u);
  EXPECT_EQ(plan.weight_bytes, 384u);
  EXPECT_EQ(plan.tensor_count(), 3u);
  EXPECT_EQ(plan.tensor(2).name, "fc.weight");
  EXPECT_NE(plan.hash, plan_parameters(two_layers()).hash);
}

TEST(ParameterLayout, HashIsEqualForEqualPlans) {
  EXPECT_EQ(plan_parameters(two_layers()).hash, plan_parameters(two_layers()).hash);
}

TEST(ParameterLayout, HashDiffersWhenAnythingDiffers) {
  std::vector<std::vector<LayerParameters>> variants(10, two_layers());
  variants[1][0].layer = "cons";
  variants[2][0].specs[1].name = "biaz";
  variants[3][1].specs[0].shape = {8, 5};
  variants[4][1].specs[0].layout.tag = "AB16b";
  variants[5][1].specs[0].layout.bytes += 64;  // moves the parameters after it
  std::swap(variants[6][0], variants[6][1]);
  for (std::size_t i = 7; i < 10; ++i) {
    variants[i][0].state = {{.name = "mean", .shape = {2}}, {.name = "count", .shape = {}}};
  }
  variants[8][0].state[1].type = DataType::int64;
  variants[9][0].state[0].shape = {3};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(plan_parameters(variants[i]).hash, plan_parameters(variants[j]).hash)
          << i << " and " << j;
    }
  }
}

TEST(ParameterLayout, HashDistinguishesWhereNamesAndExtentsEnd) {
  auto longer = two_layers(), shorter = two_layers();
  longer[1].specs[0].shape = {40};
  EXPECT_NE(plan_parameters(longer).hash, plan_parameters(shorter).hash);
}

}  // namespace
}  // namespace ddpbench::nn
