// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// avg_pool2d and adaptive_avg_pool2d: their definition by hand, and the oneDNN backend against the
// reference loops.
//
// The sum of n values in [-1, 1) is off by at most sum_tolerance(n), so their mean by that over n,
// less than 2 epsilon. The rounded factor 1/n and the product add one epsilon of a result below 1.
// A pixel's gradient is the sum of those of the m windows over it: sum_tolerance(m) more.
#include <algorithm>

#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

constexpr double kMeanTolerance = 3 * kEpsilon;

template <typename Case>
std::vector<TensorLayout> layouts_of(const Case& c) {
  return {TensorLayout::plain(c.input), image_layout(c.input, 8), image_layout(c.input, 16),
          image_layout(c.input, c.input[1])};
}

// `windows`: the most that cover one pixel.
template <typename Case>
void expect_the_references_results(const Case& c, std::int64_t windows) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(c.desc(TensorLayout::plain(c.input)));
  const OpInputs in = random_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    for (const TensorLayout& layout : layouts_of(c)) {
      SCOPED_TRACE(layout.tag);
      const auto op = fixture.backend().make(c.desc(layout));
      EXPECT_EQ(op->plan().inputs[0], layout);
      EXPECT_EQ(op->plan().needed_inputs, 0U);
      EXPECT_FALSE(op->plan().needs_output);
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(all_near(got.output, want.output, kMeanTolerance));
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                           kMeanTolerance + sum_tolerance(windows)));
      expect_same_bits(run(fixture, *op, in), got);
    }
  }
}

class AvgPool2d : public ::testing::TestWithParam<AverageCase> {};

TEST_P(AvgPool2d, EqualsTheReferenceInEveryLayout) {
  const std::int64_t windows = (GetParam().kernel - 1) / GetParam().stride + 1;
  expect_the_references_results(GetParam(), windows * windows);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AvgPool2d, ::testing::ValuesIn(average_cases()),
                         [](const auto& test) { return test.param.name; });

class AdaptiveAvgPool2d : public ::testing::TestWithParam<AdaptiveCase> {};

TEST_P(AdaptiveAvgPool2d, EqualsTheReferenceInEveryLayout) {
  const AdaptiveCase& c = GetParam();
  expect_the_references_results(c, (c.out_h / c.input[2] + 2) * (c.out_w / c.input[3] + 2));
}

INSTANTIATE_TEST_SUITE_P(Shapes, AdaptiveAvgPool2d, ::testing::ValuesIn(adaptive_cases()),
                         [](const auto& test) { return test.param.name; });

Values average_of(const OpDesc& desc, const Values& input) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(desc);
  OpInputs in = random_inputs(*op, 1);
  in.inputs[0] = input;
  return run(fixture, *op, in).output;
}

// The values of torch.nn.functional.avg_pool2d(torch.ones(1, 1, 3, 3), 3, 1, 1), with its default
// of count_include_pad and without.
TEST(AveragePool, CountsThePaddingAsPyTorchDoes) {
  AvgPool2dDesc desc{.input = TensorLayout::plain({1, 1, 3, 3}), .window = square_window(3, 1, 1)};
  const Values ones(9, 1.0F);
  constexpr float kCorner = 4.0F / 9, kEdge = 6.0F / 9;
  EXPECT_TRUE(all_near(average_of(desc, ones),
                       {kCorner, kEdge, kCorner, kEdge, 1, kEdge, kCorner, kEdge, kCorner},
                       kEpsilon));
  desc.count_include_pad = false;
  EXPECT_EQ(average_of(desc, ones), ones);
}

// avg_pool2d(torch.ones(1, 1, 4, 4), 3, 2, 1, ceil_mode=True): what is beyond the padding does not
// count.
TEST(AveragePool, CountsNothingBeyondThePaddingInCeilMode) {
  AvgPool2dDesc desc{.input = TensorLayout::plain({1, 1, 4, 4}), .window = square_window(3, 2, 1)};
  desc.window.ceil_mode = true;
  constexpr float kThird = 1.0F / 3, kTwoThirds = 2.0F / 3, kCorner = 4.0F / 9;
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(desc);
    const OpInputs in = {.inputs = {Values(16, 1)}, .grad_output = Values(9, 1)};
    EXPECT_TRUE(all_near(run(fixture, *op, in).output,
                         {kCorner, kTwoThirds, kThird, kTwoThirds, 1, 0.5F, kThird, 0.5F, 0.25F},
                         kEpsilon));
  }
}

// Five columns in three windows: [0, 2), [1, 4), [3, 5).
TEST(AveragePool, DividesAMapAsPyTorchDoes) {
  const AdaptiveAvgPool2dDesc desc{
      .input = TensorLayout::plain({1, 1, 1, 5}), .out_h = 1, .out_w = 3};
  EXPECT_EQ(average_of(desc, {1, 2, 3, 4, 6}), (Values{1.5F, 3, 5}));
}

TEST(AveragePool, OfWholeBlocksToOnePixelIsPlain) {
  BackendFixture fixture = BackendFixture::onednn();
  const TensorLayout blocked = image_layout({2, 32, 7, 7}, 16);
  EXPECT_TRUE(
      fixture.backend().make(AdaptiveAvgPool2dDesc{blocked, 1, 1})->plan().output.is_plain());
}

TEST(AveragePool, RefusesShapesWithoutAResult) {
  for (BackendFixture& fixture : all_backends()) {
    const auto average = [&](Shape shape, const Window2d& window) {
      return fixture.backend().make(
          AvgPool2dDesc{.input = TensorLayout::plain(std::move(shape)), .window = window});
    };
    EXPECT_THROW(average({2, 3, 4, 4}, square_window(5)), ConfigError);
    EXPECT_THROW(average({2, 3, 4, 4}, square_window(2, 0)), InternalError);
    EXPECT_THROW(average({2, 3, 4, 4}, square_window(2, 2, 2)), ConfigError);
    EXPECT_THROW(average({2, 3, 4}, square_window(2)), ConfigError);
    const auto adaptive = [&](Shape shape, std::int64_t h, std::int64_t w) {
      return fixture.backend().make(
          AdaptiveAvgPool2dDesc{TensorLayout::plain(std::move(shape)), h, w});
    };
    EXPECT_THROW(adaptive({2, 3, 4, 4}, 0, 1), ConfigError);
    EXPECT_THROW(adaptive({2, 3, 4, 4}, 1, -1), ConfigError);
    EXPECT_THROW(adaptive({2, 3}, 1, 1), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
