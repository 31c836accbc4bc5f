// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d: the reference against figures worked out by hand, and the oneDNN backend against
// the reference.
//
// Values are in [-1, 1). With L the largest 1 / sqrt(var + eps), normalised values are below 2 L,
// and the three roundings of scale * x + shift are of at most L each; scale, shift and the
// statistics are as exact. So results are off by less than 16 eps L. Input gradients are L times a
// sum of three terms, of which the last is below 2 L: 16 eps L (2 + 2 L). The parameters' gradients
// are sums of n values below 1 and below 2 L.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

OpInputs norm_inputs(const Op& op, std::uint32_t seed) {
  OpInputs in = random_inputs(op, seed);
  const auto channels = op.plan().output.shape[1];
  in.state = {random_values(channels, seed + 10), random_values(channels, seed + 11), {41}};
  for (float& variance : in.state[1]) variance = 1.5F + variance;
  return in;
}

// The largest 1 / sqrt(var + eps) of the first input's channels.
double largest_scale(const BatchNorm2dDesc& desc, const Values& x) {
  const Shape& shape = desc.input.shape;
  const std::int64_t pixels = shape[2] * shape[3];
  double largest = 0;
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    double sum = 0, squares = 0;
    for (std::int64_t n = 0; n < shape[0]; ++n)
      for (std::int64_t p = 0; p < pixels; ++p) {
        const double value = x[static_cast<std::size_t>((n * shape[1] + c) * pixels + p)];
        sum += value;
        squares += value * value;
      }
    const auto count = static_cast<double>(shape[0] * pixels);
    largest =
        std::max(largest, 1 / std::sqrt(squares / count - sum / count * sum / count + desc.eps));
  }
  return largest;
}

class BatchNorm2d : public ::testing::TestWithParam<NormCase> {
 protected:
  static const BatchNorm2dDesc& desc() { return GetParam().desc; }
  static BatchNorm2dDesc in_layout(const TensorLayout& layout) {
    BatchNorm2dDesc result = desc();
    result.input = layout;
    return result;
  }
  static std::vector<TensorLayout> layouts() {
    const Shape& shape = desc().input.shape;
    return {TensorLayout::plain(shape), image_layout(shape, 8), image_layout(shape, 16),
            image_layout(shape, shape[1])};
  }
  static void compare(const OpOutputs& got, const OpOutputs& want, double scale) {
    const Shape& shape = desc().input.shape;
    const std::int64_t values = shape[0] * shape[2] * shape[3];
    EXPECT_TRUE(all_near(got.output, want.output, 16 * kEpsilon * scale));
    ASSERT_EQ(got.grad_inputs.size(), want.grad_inputs.size());
    for (std::size_t i = 0; i < got.grad_inputs.size(); ++i)
      EXPECT_TRUE(all_near(got.grad_inputs[i], want.grad_inputs[i],
                           16 * kEpsilon * scale * (2 + 2 * scale)))
          << "input " << i;
    ASSERT_EQ(got.grad_parameters.size(), want.grad_parameters.size());
    for (std::size_t i = 0; i < got.grad_parameters.size(); ++i)
      EXPECT_TRUE(all_near(got.grad_parameters[i], want.grad_parameters[i],
                           sum_tolerance(values) * (1 + 2 * scale)))
          << "parameter " << i;
    ASSERT_EQ(got.state.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_TRUE(all_near(got.state[i], want.state[i], i < 2 ? 8 * kEpsilon : 0)) << "state " << i;
  }
};

TEST_P(BatchNorm2d, EqualsTheReferenceInEveryLayout) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc());
  OpInputs in = norm_inputs(*reference, 1);
  const double scale = largest_scale(desc(), in.inputs[0]);
  const OpOutputs want = run(plain, *reference, in);
  EXPECT_EQ(want.state[2], Values{42});
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    for (const TensorLayout& layout : layouts()) {
      SCOPED_TRACE(layout.tag);
      const auto op = fixture.backend().make(in_layout(layout));
      EXPECT_TRUE(op->plan().couples_samples);
      EXPECT_EQ(op->plan().inputs[0], layout);
      EXPECT_EQ(op->plan().output, layout);
      compare(run(fixture, *op, in), want, scale);
    }
  }
}

TEST_P(BatchNorm2d, AddsToGradientsThatAreThere) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc());
  OpInputs in = norm_inputs(*reference, 2);
  for (const ParameterSpec& spec : reference->plan().parameters)
    in.initial_gradients.push_back(random_values(element_count(spec.shape), 77));
  const double scale = largest_scale(desc(), in.inputs[0]);
  const OpOutputs want = run(plain, *reference, in);
  BackendFixture fixture = BackendFixture::onednn();
  for (const TensorLayout& layout : layouts()) {
    SCOPED_TRACE(layout.tag);
    compare(run(fixture, *fixture.backend().make(in_layout(layout)), in), want, scale);
  }
}

TEST_P(BatchNorm2d, EvaluatesByTheRunningStatisticsAndKeepsThem) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc());
  OpInputs in = norm_inputs(*reference, 3);
  in.mode = Mode::evaluation;
  const OpOutputs want = run(plain, *reference, in);
  EXPECT_EQ(want.state, in.state);
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    for (const TensorLayout& layout : layouts()) {
      SCOPED_TRACE(layout.tag);
      const auto op = fixture.backend().make(in_layout(layout));
      const OpOutputs got = run(fixture, *op, in);
      // Running variances are at least 1/2.
      EXPECT_TRUE(all_near(got.output, want.output, 16 * kEpsilon * std::sqrt(2.0)));
      EXPECT_EQ(got.state, in.state);
    }
  }
}

// Each gradient can be unwanted, and all. What is left has the same bits, also where it is added.
TEST_P(BatchNorm2d, GivesNoGradientThatNobodyWants) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const TensorLayout& layout : layouts()) {
    SCOPED_TRACE(layout.tag);
    const auto op = fixture.backend().make(in_layout(layout));
    OpInputs in = norm_inputs(*op, 4);
    for (const ParameterSpec& spec : op->plan().parameters)
      in.initial_gradients.push_back(random_values(element_count(spec.shape), 78));
    const OpOutputs want = run(fixture, *op, in);
    ASSERT_EQ(want.grad_inputs.size(), op->plan().inputs.size());
    for (std::size_t i = 0; i < op->plan().inputs.size(); ++i) {
      in.unwanted = {i};
      expect_same_bits(run(fixture, *op, in), without_gradients(want, in.unwanted));
    }
    in.unwanted.resize(op->plan().inputs.size());
    std::iota(in.unwanted.begin(), in.unwanted.end(), std::size_t{0});
    expect_same_bits(run(fixture, *op, in), without_gradients(want, in.unwanted));
  }
}

TEST_P(BatchNorm2d, HasTheSameBitsWithAnyTeam) {
  if (team_sizes().size() < 2) GTEST_SKIP() << "one team size";
  BackendFixture one = BackendFixture::onednn(1), two = BackendFixture::onednn(2);
  const auto first = one.backend().make(desc());
  const auto second = two.backend().make(desc());
  const OpInputs in = norm_inputs(*first, 5);
  expect_same_bits(run(two, *second, in), run(one, *first, in));
}

TEST_P(BatchNorm2d, AddsTheGradientsOfTwoReaders) {
  BackendFixture fixture = BackendFixture::onednn();
  for (const TensorLayout& layout : layouts()) {
    SCOPED_TRACE(layout.tag);
    const auto op = fixture.backend().make(in_layout(layout));
    ASSERT_TRUE(op->plan().adds_grad_outputs);
    for (const std::vector<std::size_t>& unwanted : {std::vector<std::size_t>{}, {1}}) {
      OpInputs parts = norm_inputs(*op, 3);
      parts.unwanted = unwanted;
      parts.more_grad_output = random_values(element_count(op->plan().output.shape), 9);
      expect_same_bits(run(fixture, *op, parts), run(fixture, *op, with_added_gradient(parts)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNorm2d, ::testing::ValuesIn(norm_cases()),
                         [](const auto& test) { return test.param.name; });

// Values 0, 2, 4, 6: mean 3, biased variance 5, unbiased 20/3. PyTorch 2.6 gives the same.
TEST(BatchNorm2dMeaning, IsThatOfPyTorch) {
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(
        BatchNorm2dDesc{.input = TensorLayout::plain({2, 1, 1, 2}), .eps = 0});
    const OpInputs in = {
        .inputs = {{0, 2, 4, 6}}, .parameters = {{2}, {1}}, .grad_output = {1, 0, 0, 0}};
    const OpOutputs out = run(fixture, *op, in);
    const float s = std::sqrt(5.0F);
    EXPECT_TRUE(all_near(out.output, {1 - 6 / s, 1 - 2 / s, 1 + 2 / s, 1 + 6 / s}, 4e-7));
    // 2 / s * (g - 1/4 - x^ * (-3 / s) / 4)
    EXPECT_TRUE(all_near(out.grad_inputs[0], {0.6F / s, -0.8F / s, -0.2F / s, 0.4F / s}, 4e-7));
    EXPECT_TRUE(all_near(out.grad_parameters[0], {-3 / s}, 4e-7));
    EXPECT_TRUE(all_near(out.grad_parameters[1], {1}, 0));
    EXPECT_TRUE(all_near(out.state[0], {0.3F}, 1e-7));
    EXPECT_TRUE(all_near(out.state[1], {0.9F + 0.1F * 20 / 3}, 2e-7));
    EXPECT_EQ(out.state[2], Values{1});
  }
}

// A mean that is large beside the deviations: sums of squares would lose them.
TEST(BatchNorm2dMeaning, KeepsSmallDeviationsFromALargeMean) {
  const Shape shape = {4, 16, 20, 20};
  BackendFixture plain = BackendFixture::reference();
  BackendFixture fixture = BackendFixture::onednn();
  const auto reference = plain.backend().make(BatchNorm2dDesc{TensorLayout::plain(shape)});
  OpInputs in = norm_inputs(*reference, 6);
  for (float& x : in.inputs[0]) x = 1000 + x / 4;
  const OpOutputs want = run(plain, *reference, in);
  for (const std::int64_t block : {1, 16}) {
    const auto layout = image_layout(shape, block);
    const auto op = fixture.backend().make(BatchNorm2dDesc{layout});
    const OpOutputs got = run(fixture, *op, in);
    // scale * x + shift rounds numbers as large as 7 * 1000.
    EXPECT_TRUE(all_near(got.output, want.output, 7 * 1000 * 2 * kEpsilon));
    EXPECT_TRUE(all_near(got.state[1], want.state[1], 8 * kEpsilon));
  }
}

TEST(BatchNorm2dPlan, RefusesWhatHasNoVarianceAndNoMeaning) {
  for (BackendFixture& fixture : all_backends()) {
    const auto norm = [&](Shape shape, double eps, double momentum) {
      return fixture.backend().make(BatchNorm2dDesc{
          .input = TensorLayout::plain(std::move(shape)), .eps = eps, .momentum = momentum});
    };
    EXPECT_THROW(norm({1, 3, 1, 1}, 1e-5, 0.1), ConfigError);
    EXPECT_THROW(norm({2, 3}, 1e-5, 0.1), ConfigError);
    EXPECT_THROW(norm({2, 3, 1, 1}, -1, 0.1), InternalError);
    EXPECT_THROW(norm({2, 3, 1, 1}, 1e-5, 1.5), InternalError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
