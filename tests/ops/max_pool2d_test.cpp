// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// max_pool2d of the oneDNN backend against the reference loops; everything is exact.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

// Values of both signs with ties: the first winner and the ReLU then matter.
Values tied_values(std::int64_t count, std::uint32_t seed) {
  Values values = random_values(count, seed);
  for (float& v : values) v = static_cast<float>(static_cast<int>(v * 4));
  return values;
}

class MaxPool2d : public ::testing::TestWithParam<PoolCase> {
 protected:
  static MaxPool2dDesc desc(const TensorLayout& input, bool relu) {
    return GetParam().desc(input, relu);
  }
  static std::vector<TensorLayout> layouts() {
    const Shape& shape = GetParam().input;
    return {TensorLayout::plain(shape), image_layout(shape, 8), image_layout(shape, 16),
            image_layout(shape, shape[1])};
  }
};

TEST_P(MaxPool2d, EqualsTheReferenceInEveryLayout) {
  for (const bool relu : {false, true}) {
    BackendFixture plain = BackendFixture::reference();
    const auto reference = plain.backend().make(desc(TensorLayout::plain(GetParam().input), relu));
    OpInputs in = random_inputs(*reference, 1);
    in.inputs[0] = tied_values(element_count(GetParam().input), 2);
    // Small integers, so that the gradients of overlapping windows add up exactly in any order.
    in.grad_output = tied_values(static_cast<std::int64_t>(in.grad_output.size()), 3);
    const OpOutputs want = run(plain, *reference, in);
    for (const int threads : team_sizes()) {
      BackendFixture fixture = BackendFixture::onednn(threads);
      for (const TensorLayout& layout : layouts())
        for (const bool plain_output : {false, true}) {
          SCOPED_TRACE(layout.tag + (plain_output ? " to plain" : ""));
          MaxPool2dDesc pool = desc(layout, relu);
          pool.to_plain = plain_output;
          const auto op = fixture.backend().make(pool);
          EXPECT_EQ(op->plan().inputs[0], layout);
          EXPECT_EQ(op->plan().output.tag, plain_output ? "plain" : layout.tag);
          EXPECT_EQ(op->plan().needed_inputs, 0U);
          EXPECT_FALSE(op->plan().needs_output);
          const OpOutputs got = run(fixture, *op, in);
          EXPECT_TRUE(all_near(got.output, want.output, 0));
          EXPECT_TRUE(all_near(got.grad_inputs[0], want.grad_inputs[0], 0));
        }
    }
  }
}

TEST_P(MaxPool2d, LetsNaNWinAndPassItsGradient) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  BackendFixture fixture = BackendFixture::onednn();
  for (const TensorLayout& layout : layouts()) {
    const auto op = fixture.backend().make(desc(layout, true));
    OpInputs in = random_inputs(*op, 1);
    std::fill(in.inputs[0].begin(), in.inputs[0].end(), -1.0F);
    in.inputs[0][0] = kNaN;
    std::fill(in.grad_output.begin(), in.grad_output.end(), 1.0F);
    const OpOutputs got = run(fixture, *op, in);
    EXPECT_TRUE(std::isnan(got.output[0]));
    EXPECT_GT(got.grad_inputs[0][0], 0);
    EXPECT_EQ(std::count_if(got.grad_inputs[0].begin() + 1, got.grad_inputs[0].end(),
                            [](float v) { return v != 0; }),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaxPool2d, ::testing::ValuesIn(pool_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(MaxPool2dPlan, RefusesShapesWithoutAResult) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto pool = [&](Shape shape, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
    return fixture.backend().make(MaxPool2dDesc{.input = TensorLayout::plain(std::move(shape)),
                                                .window = square_window(kernel, stride, pad)});
  };
  EXPECT_THROW(pool({2, 3, 4, 4}, 5, 1, 0), ConfigError);
  EXPECT_THROW(pool({2, 3, 4, 4}, 2, 0, 0), InternalError);
  EXPECT_THROW(pool({2, 3, 4, 4}, 2, 2, 2), ConfigError);
  EXPECT_THROW(pool({2, 3, 4}, 2, 2, 0), ConfigError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
