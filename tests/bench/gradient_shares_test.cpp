// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/gradient_shares.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/nn/model/model_reader.h"

namespace ddpbench::bench {
namespace {

using testing::Contains;
using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

// So many that the statistics of batch norm take nothing that doubles can tell.
constexpr std::int64_t kManySamples = std::int64_t{1} << 54;

// Of a network on so many channels of 6 x 6 that ends in a linear layer.
std::map<std::string, double> shares(const std::string& layers, std::int64_t batch = kManySamples,
                                     int channels = 2) {
  return gradient_shares(
      nn::parse_model(fmt::format(R"({{"name": "n", "input": [{}, 6, 6], "layers": [{},
                      {{"name": "fc", "type": "linear", "out_features": 3}}]}})",
                                  channels, layers),
                      "test"),
      batch);
}

constexpr const char* kConv =
    R"({"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},)";
constexpr const char* kNorm = R"({"name": "norm", "type": "batch_norm2d"})";
constexpr const char* kRelu = R"({"name": "relu", "type": "relu"},)";

TEST(GradientShares, AreNoneOfABiasThatABatchNormSubtracts) {
  EXPECT_THAT(shares(std::string(kConv) + kNorm),
              ElementsAre(Pair("conv.bias", 0), Pair("conv.weight", DoubleEq(17.0 / 18))));
  EXPECT_THAT(shares(std::string(kConv) + kRelu + kNorm),
              ElementsAre(Pair("conv.bias", DoubleEq(18.0 / 19)),
                          Pair("conv.weight", DoubleEq(18.0 / 19))));
  EXPECT_THAT(shares(R"({"name": "relu", "type": "relu"})"), IsEmpty());
}

TEST(GradientShares, LackADirectionOfTheWeightsThatABatchNormDividesBy) {
  const auto share_below = [](const std::string& more) {
    return shares(R"({"name": "conv", "type": "conv2d", "out_channels": 4, )" + more + "}, " +
                  kNorm)
        .at("conv.weight");
  };
  EXPECT_DOUBLE_EQ(share_below(R"("kernel": 1)"), 0.5);
  EXPECT_EQ(share_below(R"("kernel": 1, "groups": 2)"), 0);
  EXPECT_DOUBLE_EQ(share_below(R"("kernel": 3, "groups": 2)"), 8.0 / 9);
}

TEST(GradientShares, AreNoneInABatchNormInFrontOfAnother) {
  EXPECT_THAT(shares(R"({"name": "first", "type": "batch_norm2d"},)" + std::string(kNorm)),
              ElementsAre(Pair("first.bias", 0), Pair("first.weight", 0)));
}

// A sum has another scale than its terms.
TEST(GradientShares, PassThroughSumsAndConcatenations) {
  const std::string two = std::string(kConv) +
                          R"({"name": "other", "type": "conv2d", "out_channels": 2, "kernel": 1,
                              "groups": 2, "inputs": ["input"]},)";
  const auto joined = [&](const std::string& by) {
    return shares(two + R"({"name": "both", "type": ")" + by +
                  R"(", "inputs": ["conv", "other"]},)" + kNorm);
  };
  EXPECT_THAT(joined("add"), ElementsAre(Pair("conv.bias", 0), Pair("other.bias", 0)));
  EXPECT_THAT(joined("concat"),
              ElementsAre(Pair("conv.bias", 0), Pair("conv.weight", DoubleEq(17.0 / 18)),
                          Pair("other.bias", 0), Pair("other.weight", 0)));
}

// A channel's size passes through what grows with it, a shift only through what moves with it.
TEST(GradientShares, PassThroughLayersInBetween) {
  const auto below = [](const std::string& between, const std::string& bias = "false") {
    return shares(R"({"name": "one", "type": "conv2d", "out_channels": 1, "kernel": 1, "bias": )" +
                  bias + "}, " + between + R"(, {"name": "norm", "type": "batch_norm2d"})");
  };
  const auto of_half = ElementsAre(Pair("one.weight", 0.5));
  EXPECT_THAT(below(R"({"name": "b", "type": "relu"})"), of_half);
  EXPECT_THAT(below(R"({"name": "b", "type": "max_pool2d", "kernel": 2})"), of_half);
  EXPECT_THAT(
      below(R"({"name": "b", "type": "relu"})", "true"),
      ElementsAre(Pair("one.bias", DoubleEq(2.0 / 3)), Pair("one.weight", DoubleEq(2.0 / 3))))
      << "weights and bias scale together";
  EXPECT_THAT(below(R"({"name": "b", "type": "avg_pool2d", "kernel": 2})", "true"),
              ElementsAre(Pair("one.bias", 0), Pair("one.weight", 0.5)));
  EXPECT_THAT(below(R"({"name": "b", "type": "relu"}, {"name": "p", "type": "max_pool2d",
                        "kernel": 2})",
                    "true"),
              ElementsAre(Pair("one.bias", 0), Pair("one.weight", 0.5)))
      << "the maxima of windows are positive";
  EXPECT_THAT(below(R"({"name": "b", "type": "avg_pool2d", "kernel": 3, "padding": 1})", "true"),
              Not(Contains(Pair("one.bias", 0))))
      << "zeros beside it are not shifted";
}

TEST(GradientShares, PassThroughConvolutions) {
  const auto below = [](const std::string& more) {
    return shares(R"({"name": "first", "type": "batch_norm2d"},
                     {"name": "conv", "type": "conv2d", "out_channels": 2, "bias": false, )" +
                  more + R"(}, {"name": "norm", "type": "batch_norm2d"})");
  };
  const auto first = [&](const std::string& more, const std::string& name) {
    const auto all = below(more);
    const auto found = all.find("first." + name);
    return found == all.end() ? 1.0 : found->second;
  };
  EXPECT_EQ(first(R"("kernel": 3)", "bias"), 0);
  EXPECT_DOUBLE_EQ(first(R"("kernel": 3)", "weight"), 0.5) << "of both channels together";
  EXPECT_DOUBLE_EQ(first(R"("kernel": 3, "padding": 1)", "bias"), 0.75);
  EXPECT_EQ(first(R"("kernel": 3, "groups": 2)", "weight"), 0);
}

// Of layers with a batch norm behind them, on grey images.
std::map<std::string, double> grey_shares(const std::string& layers) {
  return shares(layers + "," + kNorm, kManySamples, 1);
}

TEST(GradientShares, CountIndependentChannelsOnly) {
  const auto below = [](const std::string& first, const std::string& between = "") {
    return grey_shares(R"({"name": "one", "type": "conv2d", "out_channels": 4, )" + first + "}," +
                       between +
                       R"({"name": "two", "type": "conv2d", "out_channels": 4, "kernel": 1})");
  };
  EXPECT_EQ(below(R"("kernel": 1)").at("two.weight"), 0);
  EXPECT_EQ(below(R"("kernel": 1)", R"({"name": "pool", "type": "avg_pool2d", "kernel": 2},)")
                .at("two.weight"),
            0);
  EXPECT_EQ(below(R"("kernel": 1)", kRelu).at("two.weight"), 0) << "all may be positive";
  EXPECT_DOUBLE_EQ(below(R"("kernel": 3)").at("two.weight"), 0.75);
}

std::string pixel_conv(const std::string& name, const std::string& more = "") {
  return fmt::format(R"({{"name": "{}", "type": "conv2d", "out_channels": 4, "kernel": 1,
                          "bias": false{}}})",
                     name, more);
}

TEST(GradientShares, AreNoneOfAllLayersInFrontWhereChannelsAreMultiplesOfOne) {
  const auto chain = grey_shares(pixel_conv("one") + "," + pixel_conv("two"));
  EXPECT_EQ(chain.at("one.weight"), 0);
  EXPECT_EQ(chain.at("two.weight"), 0);
  const auto normed = grey_shares(
      pixel_conv("one") + R"(, {"name": "first", "type": "batch_norm2d"},)" + pixel_conv("two"));
  EXPECT_EQ(normed.at("first.weight"), 0);
  const auto grouped = grey_shares(pixel_conv("one") + "," + pixel_conv("two", R"(, "groups": 2)"));
  EXPECT_EQ(grouped.at("one.weight"), 0);
  EXPECT_EQ(grouped.at("two.weight"), 0);
}

TEST(GradientShares, CountMultiplesOfOneChannelOnceInSumsAndConcatenations) {
  for (const char* const join : {"add", "concat"}) {
    const auto joined = grey_shares(
        pixel_conv("one") + "," + pixel_conv("other", R"(, "inputs": ["input"])") +
        fmt::format(R"(, {{"name": "both", "type": "{}", "inputs": ["one", "other"]}},)", join) +
        pixel_conv("two"));
    EXPECT_EQ(joined.at("one.weight"), 0) << join;
    EXPECT_EQ(joined.at("other.weight"), 0) << join;
    EXPECT_EQ(joined.at("two.weight"), 0) << join;
  }
}

TEST(GradientShares, OfWindowsOverOneChannelAreThoseOfThePixels) {
  const auto windows = grey_shares(
      R"({"name": "one", "type": "conv2d", "out_channels": 4, "kernel": 3, "bias": false},)" +
      pixel_conv("two"));
  EXPECT_DOUBLE_EQ(windows.at("two.weight"), 0.75);
  EXPECT_DOUBLE_EQ(windows.at("one.weight"), 35.0 / 36);
}

// A channel's mean and size are two directions of all that its values have.
TEST(GradientShares, AreSmallInFrontOfABatchNormOfFewValues) {
  const std::string layers = std::string(kConv) + R"({"name": "relu", "type": "relu"},
      {"name": "pool", "type": "adaptive_avg_pool2d", "output_size": 1},
      {"name": "norm", "type": "batch_norm2d"},
      {"name": "last", "type": "conv2d", "out_channels": 3, "kernel": 1})";
  EXPECT_THAT(shares(layers, 2), ElementsAre(Pair("conv.bias", 0), Pair("conv.weight", 0)));
  const auto of_four = shares(layers, 4);
  EXPECT_DOUBLE_EQ(of_four.at("conv.weight"), 0.5 * 18 / 19);
  EXPECT_DOUBLE_EQ(of_four.at("conv.bias"), 0.5 * 18 / 19);
  EXPECT_EQ(of_four.count("last.weight"), 0U);
}

TEST(GradientShares, MultiplyWhereBatchNormsFollowEachOther) {
  const auto of_two = shares(std::string(kConv) + kNorm +
                                 R"(, {"name": "wide", "type": "conv2d", "out_channels": 2,
                                       "kernel": 3}, {"name": "second", "type": "batch_norm2d"})",
                             1);
  EXPECT_DOUBLE_EQ(of_two.at("wide.weight"), 14.0 / 16 * 17 / 18) << "16 values a channel";
  EXPECT_DOUBLE_EQ(of_two.at("conv.weight"), 14.0 / 16 * 34 / 36 * 17 / 18);
  EXPECT_DOUBLE_EQ(of_two.at("norm.weight"), 14.0 / 16 * 0.5);
}

// One reader that keeps the bias is enough for a gradient.
TEST(GradientShares, AreNotThoseWithAnotherReader) {
  EXPECT_THAT(shares(std::string(kConv) + kNorm +
                     R"(, {"name": "both", "type": "add", "inputs": ["conv", "norm"]})"),
              IsEmpty());
}

}  // namespace
}  // namespace ddpbench::bench
