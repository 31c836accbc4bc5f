// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d of the oneDNN backend against the reference loops.
#include "base/error.h"
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
  return op.description().find("wino") == std::string::npos ? 1 : 10;
}

struct Bounds {
  double output, grad_input, grad_weight;
};
// The terms of one output are in / groups * kh * kw, those of an input gradient at most out /
// groups
// * kh * kw, those of a weight gradient batch * oh * ow.
Bounds bounds(const Conv2dDesc& desc, const Op& op) {
  const std::int64_t window = desc.window.kernel_h * desc.window.kernel_w;
  const Shape& out = op.output_layout().shape;
  const double factor = enlargement(op);
  return {factor * sum_tolerance(desc.input.shape[1] / desc.groups * window),
          factor * sum_tolerance(out[1] / desc.groups * window),
          factor * sum_tolerance(out[0] * out[2] * out[3])};
}

class Conv2d : public ::testing::TestWithParam<ConvCase> {};

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
    SCOPED_TRACE(op->description());
    const OpOutputs got = run(fixture, *op, in);
    const Bounds bound = bounds(desc, *op);
    EXPECT_TRUE(all_near(got.output, want.output, bound.output));
    if (desc.needs_grad_input) {
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], bound.grad_input));
    }
    ASSERT_EQ(got.grad_parameters.size(), desc.bias ? 2U : 1U);
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i], bound.grad_weight));
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

TEST(Conv2dPlan, DescribesParametersAsPyTorchStoresThem) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(conv({2, 3, 8, 8}, 5, 3));
  const auto specs = op->parameters();
  ASSERT_EQ(specs.size(), 2U);
  EXPECT_EQ(specs[0].name, "weight");
  EXPECT_EQ(specs[0].shape, (Shape{5, 3, 3, 3}));
  EXPECT_EQ(specs[0].fan_in, 27);
  EXPECT_EQ(specs[1].name, "bias");
  EXPECT_EQ(specs[1].shape, (Shape{5}));
  EXPECT_EQ(specs[1].fan_in, 27);
  EXPECT_EQ(op->output_layout().shape, (Shape{2, 5, 6, 6}));
}

TEST(Conv2dPlan, CountsMultiplyAddsAsTwo) {
  BackendFixture fixture = BackendFixture::onednn();
  const Conv2dDesc desc = conv({2, 3, 8, 8}, 5, 3);
  EXPECT_DOUBLE_EQ(fixture.backend().make(desc)->forward_flops(), 2.0 * 2 * 5 * 36 * 27);
  EXPECT_DOUBLE_EQ(fixture.backend().make(desc)->backward_flops(), 4.0 * 2 * 5 * 36 * 27);
  EXPECT_DOUBLE_EQ(fixture.backend().make(first_layer(desc))->backward_flops(),
                   2.0 * 2 * 5 * 36 * 27);
}

TEST(Conv2dPlan, CountsGroupsAndKeepsTheirWeightsAsPyTorchDoes) {
  for (BackendFixture& fixture : all_backends()) {
    Conv2dDesc desc = conv({2, 32, 8, 8}, 64, 3);
    desc.groups = 8;
    desc.dilation = {2, 1};
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->parameters()[0].shape, (Shape{64, 4, 3, 3}));
    EXPECT_EQ(op->parameters()[0].layout.shape, (Shape{64, 4, 3, 3}));
    EXPECT_EQ(op->parameters()[0].fan_in, 36);
    EXPECT_EQ(op->output_layout().shape, (Shape{2, 64, 4, 6}));
    EXPECT_DOUBLE_EQ(op->forward_flops(), 2.0 * 2 * 64 * 24 * 36);
    EXPECT_TRUE(op->description().starts_with("conv2d 3x3 32->64 dilation 2x1 groups 8"))
        << op->description();
  }
}

TEST(Conv2dPlan, NeverRunsOneChannelInputsOnThePlainLoop) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op = fixture.backend().make(first_layer(conv({16, 1, 28, 28}, 32, 3, 1, 1)));
  EXPECT_EQ(op->description().find("ref"), std::string::npos) << op->description();
}

// Those of ResNeXt-50: 32 groups of 4, 8, 16 and 32 channels.
TEST(Conv2dPlan, NeverRunsGroupsOnThePlainLoop) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const std::int64_t channels : {128, 256, 512, 1024}) {
    Conv2dDesc desc = conv({1, channels, 8, 8}, channels, 3, 1, 1);
    desc.groups = 32;
    const auto op = fixture.backend().make(desc);
    EXPECT_EQ(op->description().find("ref"), std::string::npos) << op->description();
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
    EXPECT_THROW(backend.make(conv({2, 3, 8, 8}, 5, 3, 0)), ConfigError);
    EXPECT_THROW(backend.make(conv({2, 3, 8, 8}, 5, 3, 1, -1)), ConfigError);
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
    EXPECT_THROW(backend.make(dilated), ConfigError);
    dilated.dilation = {1, 4};  // spans 9 columns of 8
    EXPECT_THROW(backend.make(dilated), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
