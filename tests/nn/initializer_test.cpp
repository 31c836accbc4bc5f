// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The counter-based generator and the values that it gives to weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/random.h"
#include "kernels/nn/weights.h"
#include "tests/nn/networks.h"

namespace ddpbench::nn {
namespace {

// The kat_vectors of the Random123 distribution for philox4x32 with 10 rounds.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // Digits of pi.
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::size_t index_of(const Graph& graph, const std::string& name) {
  const auto& parameters = graph.plan().parameters;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == name) return i;
  }
  ADD_FAILURE() << "no parameter " << name;
  return 0;
}

TEST(Initializer, DrawsUniformlyWithinPyTorchsBound) {
  TestGraph test(simple_cnn(), reference, {.batch = 1, .training = false});
  const std::vector<float> values = test.weight(index_of(test.graph(), "fc1.weight"));
  ASSERT_EQ(values.size(), 128u * 3136u);
  const double bound = 1 / std::sqrt(3136.0);
  double sum = 0, squares = 0;
  for (const float value : values) {
    ASSERT_LT(std::abs(value), bound);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto n = static_cast<double>(values.size());
  // The variance of a uniform value in (-b, b) is b^2/3. So the mean's standard deviation is
  // b/sqrt(3n), and that of the mean square is b^2 sqrt(4/45/n). The tolerance is five of each.
  EXPECT_NEAR(sum / n, 0, 5 * bound / std::sqrt(3 * n));
  EXPECT_NEAR(squares / n, bound * bound / 3, 5 * bound * bound * std::sqrt(4.0 / 45 / n));
}

TEST(Initializer, GivesBiasesTheBoundOfTheirWeights) {
  TestGraph test(simple_cnn(), reference, {.batch = 1, .training = false});
  const std::vector<float> bias = test.weight(index_of(test.graph(), "conv1.bias"));
  float largest = 0;
  for (const float value : bias) largest = std::max(largest, std::abs(value));
  EXPECT_LT(largest, 1.0f / 3);  // fan-in 9
  EXPECT_GT(largest, 0.25f);     // 32 draws miss the outer quarter with probability 1e-4
}

TEST(Initializer, IsTheSameForEveryLayoutBatchAndRun) {
  TestGraph plain(simple_cnn(), reference, {.batch = 1, .training = false});
  TestGraph blocked(simple_cnn(), onednn, {.batch = 16, .micro_batch = 4});
  for (std::size_t i = 0; i < plain.graph().plan().parameters.size(); ++i) {
    EXPECT_EQ(plain.weight(i), blocked.weight(i));
  }
}

TEST(Initializer, DependsOnSeedAndNameOnly) {
  TestGraph test(simple_cnn(), reference, {.batch = 1, .training = false});
  const std::size_t conv = index_of(test.graph(), "conv1.bias");
  const std::vector<float> first = test.weight(conv);
  initialize_parameters(test.graph(), 2);
  EXPECT_NE(test.weight(conv), first);
  initialize_parameters(test.graph(), 1);
  EXPECT_EQ(test.weight(conv), first);
  // A seed above 32 bits counts in full.
  initialize_parameters(test.graph(), 1 + (std::uint64_t{1} << 32));
  EXPECT_NE(test.weight(conv), first);
}

TEST(Initializer, GivesTensorsOfOneShapeDifferentValues) {
  TestGraph test(residual_network(), reference, {.batch = 1, .training = false});
  EXPECT_NE(test.weight(index_of(test.graph(), "hidden.bias")),
            test.weight(index_of(test.graph(), "again.bias")));
  const std::vector<float> values = test.weight(index_of(test.graph(), "left.weight"));
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size(), values.size());
}

ModelSpec with_inits(const std::string& convolution, const std::string& network) {
  return parse_model(R"({"name": "m", "input": [3, 9, 9])" + network + R"(, "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 64, "kernel": 7)" +
                         convolution + R"(},
    {"name": "bn1", "type": "batch_norm2d"},
    {"name": "fc", "type": "linear", "out_features": 100}]})",
                     "m.json");
}

// Mean and standard deviation.
std::pair<double, double> moments(const std::vector<float>& values) {
  double sum = 0, squares = 0;
  for (const float value : values) sum += value, squares += static_cast<double>(value) * value;
  const auto n = static_cast<double>(values.size());
  return {sum / n, std::sqrt(squares / n)};
}

// As torch.nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu"), whose deviation is
// sqrt(2) / sqrt(64 * 49).
TEST(Initializer, DrawsNormallyByTheOutputsOfAConvolution) {
  TestGraph test(with_inits(R"(, "init": "normal_fan_out")", ""), reference,
                 {.batch = 1, .training = false});
  const std::vector<float> weights = test.weight(index_of(test.graph(), "conv1.weight"));
  const auto [mean, deviation] = moments(weights);
  const double expected = std::sqrt(2.0 / (64 * 49)), n = 64 * 3 * 49;
  // Five standard deviations of each: those of the mean and of the root mean square.
  EXPECT_NEAR(mean, 0, 5 * expected / std::sqrt(n));
  EXPECT_NEAR(deviation, expected, 5 * expected / std::sqrt(2 * n));
  // A normal distribution has 31.7 % of its values beyond one deviation and 4.6 % beyond two.
  const auto beyond = [&](double bound) {
    return static_cast<double>(std::ranges::count_if(
               weights, [&](float value) { return std::abs(value) > bound * expected; })) /
           n;
  };
  EXPECT_NEAR(beyond(1), 0.317, 0.024);
  EXPECT_NEAR(beyond(2), 0.0455, 0.011);
  for (const float bias : test.weight(index_of(test.graph(), "conv1.bias"))) EXPECT_EQ(bias, 0);
  // The numbers of Box and Muller's formula in another program's arithmetic, to its rounding.
  const std::vector<float> first = {-0.00199499773F, -0.0332459211F, -0.00713904202F,
                                    0.00988347828F,  -0.011483443F,  -0.0241128448F};
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_FLOAT_EQ(weights[i], first[i]);
}

TEST(Initializer, TakesWhatTheNetworkSaysOfLayersThatSayNothing) {
  TestGraph test(with_inits("", R"(, "init": {"conv2d": "normal_fan_out", "linear": 0.01})"),
                 reference, {.batch = 1, .training = false});
  TestGraph own(with_inits(R"(, "init": "normal_fan_out")", ""), reference,
                {.batch = 1, .training = false});
  const std::size_t conv = index_of(test.graph(), "conv1.weight");
  EXPECT_EQ(test.weight(conv), own.weight(conv));
  const auto [mean, deviation] = moments(test.weight(index_of(test.graph(), "fc.weight")));
  EXPECT_NEAR(deviation, 0.01, 5 * 0.01 / std::sqrt(2.0 * 57600));
  EXPECT_EQ(test.weight(index_of(test.graph(), "bn1.weight")), std::vector<float>(64, 1.0F));
  TestGraph plain(
      with_inits(R"(, "init": "uniform_fan_in")", R"(, "init": {"conv2d": "normal_fan_out"})"),
      reference, {.batch = 1, .training = false});
  TestGraph unsaid(with_inits("", ""), reference, {.batch = 1, .training = false});
  EXPECT_EQ(plain.weight(conv), unsaid.weight(conv));
}

TEST(Initializer, OfClassicNetworksIsTorchvisions) {
  for (const LayerSpec& layer : load_model_file(model_path("vgg16")).layers) {
    if (!has_weights(layer.type)) continue;
    const bool convolves = layer.type == LayerType::conv2d;
    EXPECT_EQ(layer.init.kind, convolves ? InitKind::normal_fan_out : InitKind::normal);
    EXPECT_EQ(layer.init.deviation, convolves ? 0 : 0.01) << layer.name;
  }
  for (const LayerSpec& layer : load_model_file(model_path("alexnet")).layers) {
    EXPECT_EQ(layer.init.kind, InitKind::uniform_fan_in) << layer.name;
  }
}

// Convolutions as torchvision's, the last layer as PyTorch's.
TEST(Initializer, OfResidualNetworksIsTorchvisions) {
  for (const char* name : {"resnet18", "resnet50", "resnext50_32x4d", "resnet20"}) {
    for (const LayerSpec& layer : load_model_file(model_path(name)).layers) {
      const InitKind wanted =
          layer.type == LayerType::conv2d ? InitKind::normal_fan_out : InitKind::uniform_fan_in;
      EXPECT_EQ(layer.init.kind, wanted) << name << " " << layer.name;
    }
  }
}

}  // namespace
}  // namespace ddpbench::nn
