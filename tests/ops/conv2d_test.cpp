// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d of the oneDNN backend against the reference loops.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/onednn/onednn_ops.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

std::vector<ConvCase> shapes_of_conv2d() {
  std::vector<ConvCase> cases = conv_cases();
  for (const ConvCase& c : few_channel_conv_cases()) cases.push_back(c);
  return cases;
}

// Winograd's transforms enlarge the roundings of the products. The results are about one order of
// magnitude less accurate than direct sums (Lavin and Gray, section 5, for F(4x4, 3x3)).
double enlargement(const Op& op) {
  return op.plan().description.find("wino") == std::string::npos ? 1 : 10;
}

struct Bounds {
  double output, grad_input, grad_weight;
};
// The terms of one output are in / groups * kh * kw, those of an input gradient at most out /
// groups
// * kh * kw, those of a weight gradient batch * oh * ow.
Bounds bounds(const Conv2dDesc& desc, const Op& op) {
  const std::int64_t window = desc.window.kernel_h * desc.window.kernel_w;
  const Shape& out = op.plan().output.shape;
  const double factor = enlargement(op);
  return {factor * sum_tolerance(desc.input.shape[1] / desc.groups * window),
          factor * sum_tolerance(out[1] / desc.groups * window),
          factor * sum_tolerance(out[0] * out[2] * out[3])};
}

class Conv2d : public ::testing::TestWithParam<ConvCase> {};

// Expects what a step of `op` gives to be within its bounds.
void expect_near(const OpOutputs& got, const OpOutputs& want, const Conv2dDesc& desc,
                 const Op& op) {
  const Bounds bound = bounds(desc, op);
  EXPECT_TRUE(all_near(got.output, want.output, bound.output));
  if (desc.needs_grad_input) {
    EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], bound.grad_input));
  }
  ASSERT_EQ(got.grad_parameters.size(), desc.bias ? 2U : 1U);
  for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
    EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i], bound.grad_weight));
}

TEST_P(Conv2d, ComputesWhatTheReferenceDoes) {
  const Conv2dDesc& desc = GetParam().desc;
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = random_inputs(*reference, 1);
  in.want_grad_inputs = desc.needs_grad_input;
  const OpOutputs want = run(plain, *reference, in);
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    const auto op = fixture.backend().make(desc);
    SCOPED_TRACE(op->plan().description);
    const OpOutputs got = run(fixture, *op, in);
    expect_near(got, want, desc, *op);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Conv2d, AddsToTheGradientsThatAreThere) {
  const Conv2dDesc& desc = GetParam().desc;
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(desc);
  OpInputs in = random_inputs(*op, 2);
  in.want_grad_inputs = desc.needs_grad_input;
  const OpOutputs once = run(fixture, *op, in);
  in.initial_gradients = once.grad_parameters;
  const OpOutputs twice = run(fixture, *op, in);
  // g + g is exact.
  for (std::size_t i = 0; i < once.grad_parameters.size(); ++i) {
    Values doubled = once.grad_parameters[i];
    for (float& v : doubled) v *= 2;
    EXPECT_TRUE(same_bits(twice.grad_parameters[i], doubled));
  }
}

TEST_P(Conv2d, GivesEqualBitsInEqualRuns) {
  const Conv2dDesc& desc = GetParam().desc;
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    const auto op = fixture.backend().make(desc);
    OpInputs in = random_inputs(*op, 3);
    in.want_grad_inputs = desc.needs_grad_input;
    const OpOutputs first = run(fixture, *op, in);
    expect_same_bits(run(fixture, *op, in), first);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2d, ::testing::ValuesIn(shapes_of_conv2d()),
                         [](const auto& test) { return test.param.name; });

// ---- the own Winograd, whether the rule would choose it or not ----

std::vector<ConvCase> winograd_cases() {
  const auto relu = [](Conv2dDesc desc) {
    desc.fuse_relu = true;
    return desc;
  };
  Conv2dDesc oblong = conv({2, 16, 10, 13}, 32, 3, 1, 2);
  oblong.window.pad_h = 0;
  Conv2dDesc without_bias = relu(conv({2, 20, 9, 9}, 24, 3, 1, 1));
  without_bias.bias = false;
  Conv2dDesc first_layer = conv({2, 3, 12, 12}, 16, 3, 1, 1);
  first_layer.needs_grad_input = false;
  return {
      {"OneOutput", conv({1, 1, 3, 3}, 1, 3)},
      {"OnePixelPadded", conv({1, 1, 1, 1}, 1, 3, 1, 1)},
      {"OneChannel", relu(conv({3, 1, 9, 7}, 5, 3, 1, 1))},
      {"OneTile", conv({1, 16, 4, 4}, 16, 3, 1, 1)},
      {"OneTileOfEachSample", conv({5, 32, 4, 4}, 48, 3, 1, 1)},
      {"ChannelsBelowABlock", relu(conv({2, 7, 6, 11}, 9, 3, 1, 1))},
      {"ChannelsAboveABlock", conv({2, 17, 8, 5}, 40, 3, 1, 1)},
      {"OddBlocks", relu(conv({2, 48, 7, 7}, 80, 3, 1, 1))},
      {"NetworkSecondLayer", relu(conv({4, 32, 14, 14}, 64, 3, 1, 1))},
      {"WithoutPadding", conv({2, 32, 10, 9}, 32, 3)},
      {"PaddedByTwo", relu(conv({2, 16, 6, 7}, 32, 3, 1, 2))},
      {"PaddedInOneDirection", oblong},
      {"WithoutBias", without_bias},
      {"FirstLayer", first_layer},
      {"ManyGroupsOfTiles", relu(conv({9, 16, 25, 18}, 16, 3, 1, 1))},
      {"OneRow", conv({3, 16, 1, 40}, 16, 3, 1, 1)},
  };
}

std::vector<cpu::SimdLevel> vector_levels() {
  std::vector<cpu::SimdLevel> levels;
  for (const auto level : {cpu::SimdLevel::avx2, cpu::SimdLevel::avx512})
    if (level <= cpu::simd_level()) levels.push_back(level);
  return levels;
}

// A small cache makes many groups of tiles.
std::unique_ptr<Op> own_winograd(const Conv2dDesc& desc, cpu::SimdLevel level, int threads) {
  return cpu::make_winograd_conv2d({level, threads}, std::size_t{1} << 16, DataType::fp32, desc);
}

class OwnWinograd : public ::testing::TestWithParam<ConvCase> {
 protected:
  void SetUp() override {
    if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  }
};

TEST_P(OwnWinograd, ComputesWhatTheReferenceDoes) {
  const Conv2dDesc& desc = GetParam().desc;
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  OpInputs in = random_inputs(*reference, 1);
  in.want_grad_inputs = desc.needs_grad_input;
  const OpOutputs want = run(plain, *reference, in);
  for (const cpu::SimdLevel level : vector_levels())
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      const auto op = own_winograd(desc, level, threads);
      SCOPED_TRACE(op->plan().description);
      const OpOutputs got = run(fixture, *op, in);
      expect_near(got, want, desc, *op);
      if (HasFatalFailure()) return;
      expect_same_bits(run(fixture, *op, in), got);
    }
}

TEST_P(OwnWinograd, AddsToTheGradientsThatAreThere) {
  for (const cpu::SimdLevel level : vector_levels())
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      const auto op = own_winograd(GetParam().desc, level, threads);
      OpInputs in = random_inputs(*op, 2);
      in.want_grad_inputs = GetParam().desc.needs_grad_input;
      const OpOutputs once = run(fixture, *op, in);
      in.initial_gradients = once.grad_parameters;
      const OpOutputs twice = run(fixture, *op, in);
      // Weight gradients are added at once, and g + g is exact. A bias's sums are added to it.
      Values doubled = once.grad_parameters[0];
      for (float& v : doubled) v *= 2;
      EXPECT_TRUE(same_bits(twice.grad_parameters[0], doubled));
      for (std::size_t i = 0; i < once.grad_parameters.back().size(); ++i)
        EXPECT_FLOAT_EQ(twice.grad_parameters.back()[i], 2 * once.grad_parameters.back()[i]);
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OwnWinograd, ::testing::ValuesIn(winograd_cases()),
                         [](const auto& test) { return test.param.name; });

// The norm of the difference, as a share of the norm.
double difference(const Values& got, const Values& want) {
  double square = 0, all = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got.at(i)) - want[i];
    square += d * d;
    all += static_cast<double>(want[i]) * want[i];
  }
  return std::sqrt(square / all);
}

// Lavin and Gray's section 5; oneDNN 2's F(4x4, 3x3) differs as much.
TEST(OwnWinogradAccuracy, DiffersByAFewRoundingsOfTheNorm) {
  if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  const Conv2dDesc desc = conv({8, 64, 14, 14}, 64, 3, 1, 1);
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc);
  const OpInputs in = random_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  for (const cpu::SimdLevel level : vector_levels()) {
    BackendFixture fixture = BackendFixture::onednn();
    const OpOutputs got = run(fixture, *own_winograd(desc, level, 1), in);
    EXPECT_LT(difference(got.output, want.output), 2e-6);
    EXPECT_LT(difference(got.grad_inputs[0], want.grad_inputs[0]), 2e-6);
    EXPECT_LT(difference(got.grad_parameters[0], want.grad_parameters[0]), 5e-6);
  }
}

// Other operations count on the channels that fill up the last block.
TEST(OwnWinogradBlocks, KeepWhatFillsThemZero) {
  if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  for (const cpu::SimdLevel level : vector_levels()) {
    const std::int64_t block = level == cpu::SimdLevel::avx512 ? 16 : 8;
    const auto filled = [&](std::int64_t vectors, std::int64_t channels) {
      Values values = random_values(vectors * block, 1);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (static_cast<std::int64_t>(i) % block >= channels) values[i] = 0;
      return values;
    };
    Values weights = filled(9 * block, block - 1);  // [3][3][in][out]
    for (std::size_t i = 0; i < weights.size(); ++i)
      if (static_cast<std::int64_t>(i) / block % block >= block - 3) weights[i] = 0;
    const Values x = filled(60, block - 3), bias = filled(1, block - 1);
    Values y(x.size()), dx(x.size()), dw(weights.size()), db(bias.size());
    run_as_laid_out(*own_winograd(conv({2, block - 3, 6, 5}, block - 1, 3, 1, 1), level, 1), x,
                    {weights.data(), bias.data()}, y, dx, {dw.data(), db.data()});
    for (std::size_t i = 0; i < y.size(); ++i) {
      const auto lane = static_cast<std::int64_t>(i) % block;
      EXPECT_EQ(y[i] == 0, lane >= block - 1) << i;
      EXPECT_EQ(dx[i] == 0, lane >= block - 3) << i;
    }
    for (std::size_t i = 0; i < dw.size(); ++i) EXPECT_EQ(dw[i] == 0, weights[i] == 0) << i;
  }
}

// The sums of 512 channels take 38 MB, however many threads add to them.
TEST(OwnWinogradWorkspace, HasOneSetOfSumsForAllThreads) {
  if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  for (const cpu::SimdLevel level : vector_levels()) {
    const auto bytes = [&](int threads) {
      return own_winograd(conv({16, 512, 7, 7}, 512, 3, 1, 1), level, threads)
          ->plan()
          .workspace_bytes;
    };
    const std::size_t sums = 36 * sizeof(float) * 512 * 512;
    EXPECT_GT(bytes(1), sums);
    EXPECT_LT(bytes(1), sums + sums / 2);
    for (const int threads : {2, 16, 64, 100}) EXPECT_LT(bytes(threads), bytes(1) + sums / 8);
  }
}

// ---- which of them a convolution runs on ----

std::string chosen(const Conv2dDesc& desc, onednn::ConvAlgorithm algorithm) {
  auto context = std::make_shared<onednn::Context>();
  return onednn::make_conv2d(context, desc, algorithm)->plan().description;
}

TEST(Conv2dAlgorithm, IsWinogradWhereThatIsFaster) {
  using enum onednn::ConvAlgorithm;
  if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  const auto is_winograd = [](const Conv2dDesc& desc) {
    return chosen(desc, automatic).find("own wino") != std::string::npos;
  };
  const Conv2dDesc layer = conv({16, 32, 14, 14}, 64, 3, 1, 1);
  EXPECT_TRUE(is_winograd(layer)) << chosen(layer, automatic);
  EXPECT_NE(chosen(layer, winograd).find("own wino"), std::string::npos);
  EXPECT_EQ(chosen(layer, direct).find("wino"), std::string::npos) << chosen(layer, direct);
  EXPECT_TRUE(is_winograd(conv({4, 512, 14, 14}, 512, 3, 1, 1)));
  EXPECT_FALSE(is_winograd(conv({16, 32, 5, 5}, 64, 3, 1, 1)));   // tiles of 4 x 4 waste half of it
  EXPECT_FALSE(is_winograd(conv({16, 3, 14, 14}, 64, 3, 1, 1)));  // few channels
  EXPECT_FALSE(is_winograd(conv({16, 32, 14, 14}, 64, 3, 2, 1)));
  EXPECT_FALSE(is_winograd(conv({16, 32, 14, 14}, 64, 5, 1, 1)));
  // Too few tiles for so many weights to transform.
  EXPECT_FALSE(is_winograd(conv({1, 512, 7, 7}, 512, 3, 1, 1)));
}

TEST(Conv2dAlgorithm, NeedsTilesForEachThreadWhereWeightsAreMany) {
  if (vector_levels().empty()) GTEST_SKIP() << "this processor has neither AVX2 nor AVX-512";
  const auto own = [](const Conv2dDesc& desc, cpu::SimdLevel level, int threads) {
    auto context = std::make_shared<onednn::Context>();
    context->simd = level;
    context->threads = threads;
    context->l2_bytes = std::size_t{1} << 20;
    const auto op = onednn::make_conv2d(context, desc, onednn::ConvAlgorithm::automatic);
    return op->plan().description.find(fmt::format("own wino_4x3:{}", to_string(level))) !=
           std::string::npos;
  };
  // Maps of 9x9 and 14x14 outputs.
  const Conv2dDesc deep = conv({6, 512, 7, 7}, 512, 3, 1, 2);
  const Conv2dDesc narrow = conv({6, 32, 12, 12}, 32, 3, 1, 2);
  for (const cpu::SimdLevel level : vector_levels()) {
    EXPECT_TRUE(own(deep, level, 1));
    EXPECT_FALSE(own(deep, level, 2));
    EXPECT_TRUE(own(narrow, level, 1));
    EXPECT_TRUE(own(narrow, level, 2));
  }
}

TEST(Conv2dAlgorithm, RefusesAnOwnWinogradThatThereIsNot) {
  const auto make = [](cpu::SimdLevel level, const Conv2dDesc& desc) {
    return cpu::make_winograd_conv2d({level, 1}, std::size_t{1} << 20, DataType::fp32, desc);
  };
  for (const Conv2dDesc& desc : {conv({2, 16, 8, 8}, 16, 3, 2, 1), conv({2, 16, 8, 8}, 16, 5, 1, 1),
                                 conv({2, 16, 8, 8}, 16, 3, 1, 3)})
    EXPECT_THROW(make(cpu::simd_level(), desc), DeviceError);
  EXPECT_THROW(make(cpu::SimdLevel::portable, conv({2, 16, 8, 8}, 16, 3)), DeviceError);
}

TEST(Conv2dPlan, DescribesParametersAsPyTorchStoresThem) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(conv({2, 3, 8, 8}, 5, 3));
  const auto specs = op->plan().parameters;
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0].name, "weight");
  EXPECT_EQ(specs[0].shape, (Shape{5, 3, 3, 3}));
  EXPECT_EQ(specs[0].fan_in, 27);
  EXPECT_EQ(specs[1].name, "bias");
  EXPECT_EQ(specs[1].shape, (Shape{5}));
  EXPECT_EQ(specs[1].fan_in, 27);
  EXPECT_EQ(op->plan().output.shape, (Shape{2, 5, 6, 6}));
}

TEST(Conv2dPlan, CountsMultiplyAddsAsTwo) {
  BackendFixture fixture = BackendFixture::onednn();
  const Conv2dDesc desc = conv({2, 3, 8, 8}, 5, 3);
  EXPECT_DOUBLE_EQ(fixture.backend().make(desc)->plan().forward_flops, 2.0 * 2 * 5 * 36 * 27);
  EXPECT_DOUBLE_EQ(fixture.backend().make(desc)->plan().backward_flops, 4.0 * 2 * 5 * 36 * 27);
  EXPECT_DOUBLE_EQ(fixture.backend().make(first_layer(desc))->plan().backward_flops,
                   2.0 * 2 * 5 * 36 * 27);
}

TEST(Conv2dPlan, CountsGroupsAndKeepsTheirWeightsAsPyTorchDoes) {
  for (BackendFixture& fixture : all_backends()) {
    Conv2dDesc desc = conv({2, 32, 8, 8}, 64, 3);
    desc.groups = 8;
    desc.dilation = {2, 1};
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->plan().parameters[0].shape, (Shape{64, 4, 3, 3}));
    EXPECT_EQ(op->plan().parameters[0].layout.shape, (Shape{64, 4, 3, 3}));
    EXPECT_EQ(op->plan().parameters[0].fan_in, 36);
    EXPECT_EQ(op->plan().output.shape, (Shape{2, 64, 4, 6}));
    EXPECT_DOUBLE_EQ(op->plan().forward_flops, 2.0 * 2 * 64 * 24 * 36);
    EXPECT_TRUE(op->plan().description.starts_with("conv2d 3x3 32->64 dilation 2x1 groups 8"))
        << op->plan().description;
  }
}

TEST(Conv2dPlan, NeverRunsOneChannelInputsOnThePlainLoop) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(first_layer(conv({16, 1, 28, 28}, 32, 3, 1, 1)));
  EXPECT_EQ(op->plan().description.find("ref"), std::string::npos) << op->plan().description;
}

// Those of ResNeXt-50: 32 groups of 4, 8, 16 and 32 channels.
TEST(Conv2dPlan, NeverRunsGroupsOnThePlainLoop) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const std::int64_t channels : {128, 256, 512, 1024}) {
    Conv2dDesc desc = conv({1, channels, 8, 8}, channels, 3, 1, 1);
    desc.groups = 32;
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->plan().description.find("ref"), std::string::npos) << op->plan().description;
  }
}

TEST(Conv2dPlan, RefusesShapesWithoutAResult) {
  for (BackendFixture* fixture : {new BackendFixture(BackendFixture::onednn()),
                                  new BackendFixture(BackendFixture::reference())}) {
    const std::unique_ptr<BackendFixture> owner(fixture);
    OpBackend& backend = fixture->backend();
    EXPECT_THROW(backend.make(conv({2, 3, 4, 4}, 5, 7)), ConfigError);
    EXPECT_THROW(backend.make(conv({2, 3, 4}, 5, 3)), ConfigError);
    EXPECT_THROW(backend.make(conv({0, 3, 8, 8}, 5, 3)), ConfigError);
    EXPECT_THROW(backend.make(conv({2, 3, 8, 8}, 0, 3)), ConfigError);
    EXPECT_THROW(backend.make(conv({2, 3, 8, 8}, 5, 3, 0)), InternalError);
    EXPECT_THROW(backend.make(conv({2, 3, 8, 8}, 5, 3, 1, -1)), InternalError);
    const auto grouped = [&](std::int64_t groups) {
      Conv2dDesc desc = conv({2, 6, 8, 8}, 9, 3);
      desc.groups = groups;
      return backend.make(desc);
    };
    EXPECT_NO_THROW(grouped(3));
    for (const std::int64_t groups : {-1, 0, 2, 6, 9, 12})
      EXPECT_THROW(grouped(groups), ConfigError) << groups;
    Conv2dDesc dilated = conv({2, 3, 8, 8}, 5, 3);
    dilated.dilation = {0, 1};
    EXPECT_THROW(backend.make(dilated), InternalError);
    dilated.dilation = {1, 4};  // spans 9 columns of 8
    EXPECT_THROW(backend.make(dilated), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
