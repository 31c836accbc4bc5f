// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// upsample_bilinear: PyTorch's values, and the oneDNN backend against the reference loops.
//
// A weight, two roundings of shares below 1 and their product, is off by 2 epsilon, as is the sum
// of four products of values in [-1, 1) by sum_tolerance(4). A pixel's gradient is the sum of those
// of the m outputs that read it, whose weights are below 1: sum_tolerance(m) more.
#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

class UpsampleBilinear : public ::testing::TestWithParam<UpsampleCase> {};

TEST_P(UpsampleBilinear, EqualsTheReferenceInEveryLayout) {
  const UpsampleCase& c = GetParam();
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(c.desc(TensorLayout::plain(c.input)));
  const OpInputs in = random_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  const std::int64_t readers =
      (2 * c.out_h / c.input[2] + 2) * (2 * c.out_w / c.input[3] + 2);  // at most, of a pixel
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    for (const TensorLayout& layout :
         {TensorLayout::plain(c.input), image_layout(c.input, 8), image_layout(c.input, 16),
          image_layout(c.input, c.input[1])}) {
      SCOPED_TRACE(layout.tag);
      const auto op = fixture.backend().make(c.desc(layout));
      EXPECT_EQ(op->plan().inputs[0], layout);
      EXPECT_EQ(op->plan().needed_inputs, 0U);
      EXPECT_FALSE(op->plan().needs_output);
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(all_near(got.output, want.output, 2 * kEpsilon + sum_tolerance(4)));
      EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0],
                           2 * kEpsilon * static_cast<double>(readers) + sum_tolerance(readers)));
      expect_same_bits(run(fixture, *op, in), got);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, UpsampleBilinear, ::testing::ValuesIn(upsample_cases()),
                         [](const auto& test) { return test.param.name; });

struct PyTorchCase {
  Shape input;
  std::int64_t out_h, out_w;
  Values output, gradient;
};

// torch 2.6: interpolate(x, [out_h, out_w], mode="bilinear", align_corners=False) of x_i = i^2, and
// the gradient where the output's is 1, 2, 3, ...
const PyTorchCase kPyTorchCases[] = {
    {{1, 1, 2, 3},
     5,
     4,
     {0,      0.625F, 2.125F, 4,     0.9F,   1.9F,  3.85F, 6.1F,    4.5F,    7,
      10.75F, 14.5F,  8.1F,   12.1F, 17.65F, 22.9F, 9,     13.375F, 19.375F, 25},
     {16.475F, 18.8125F, 24.9125F, 47.275F, 46.8125F, 55.7125F}},
    {{1, 1, 3, 4},
     2,
     2,
     {5.5F, 15.5F, 59.5F, 93.5F},
     {0.375F, 0.375F, 0.75F, 0.75F, 0.5F, 0.5F, 0.75F, 0.75F, 1.125F, 1.125F, 1.5F, 1.5F}},
    {{1, 1, 3, 3}, 3, 3, {0, 1, 4, 9, 16, 25, 36, 49, 64}, {1, 2, 3, 4, 5, 6, 7, 8, 9}},
};

// A share that PyTorch rounds in the quotient of the sizes differs by 3 epsilon of values up to 64.
TEST(UpsampleBilinear, HasPyTorchsValues) {
  for (BackendFixture& fixture : all_backends()) {
    for (const PyTorchCase& c : kPyTorchCases) {
      const auto op = fixture.backend().make(
          UpsampleBilinearDesc{TensorLayout::plain(c.input), c.out_h, c.out_w});
      OpInputs in;
      in.inputs.emplace_back();
      for (std::int64_t i = 0; i < element_count(c.input); ++i)
        in.inputs[0].push_back(static_cast<float>(i * i));
      for (std::size_t i = 0; i < c.output.size(); ++i)
        in.grad_output.push_back(static_cast<float>(i + 1));
      const OpOutputs got = run(fixture, *op, in);
      EXPECT_TRUE(all_near(got.output, c.output, 3 * 64 * kEpsilon));
      EXPECT_TRUE(all_near(got.grad_inputs[0], c.gradient, 3 * 64 * kEpsilon));
    }
  }
}

TEST(UpsampleBilinear, RefusesShapesWithoutAResult) {
  for (BackendFixture& fixture : all_backends()) {
    const auto upsample = [&](Shape shape, std::int64_t h, std::int64_t w) {
      return fixture.backend().make(
          UpsampleBilinearDesc{TensorLayout::plain(std::move(shape)), h, w});
    };
    EXPECT_THROW(upsample({2, 3, 4, 4}, 0, 1), ConfigError);
    EXPECT_THROW(upsample({2, 3, 4, 4}, 1, -1), ConfigError);
    EXPECT_THROW(upsample({2, 3}, 1, 1), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
