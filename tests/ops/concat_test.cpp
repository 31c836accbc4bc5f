// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// concat of the oneDNN backend against the reference loops; everything is exact.
#include <algorithm>

#include "base/error.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

ConcatDesc plain_concat(const std::vector<Shape>& shapes) {
  ConcatDesc desc;
  for (const Shape& shape : shapes) desc.inputs.push_back(TensorLayout::plain(shape));
  return desc;
}

class Concat : public ::testing::TestWithParam<ConcatCase> {
 protected:
  static bool is_images() { return GetParam().inputs[0].size() == 4; }
  // The inputs in blocks of channels; 0: channels last; 1: plain.
  static ConcatDesc desc(std::int64_t block) {
    ConcatDesc desc = plain_concat(GetParam().inputs);
    if (block == 1) return desc;
    for (TensorLayout& input : desc.inputs) {
      const std::int64_t inner = block == 0 ? input.shape[1] : block;
      input = image_layout(input.shape, inner);
    }
    return desc;
  }
  static std::vector<std::int64_t> blocks() {
    return is_images() ? std::vector<std::int64_t>{0, 1, 8, 16} : std::vector<std::int64_t>{1};
  }
};

TEST_P(Concat, EqualsTheReferenceInEveryLayout) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(plain_concat(GetParam().inputs));
  const OpInputs in = random_inputs(*reference, 1);
  const OpOutputs want = run(plain, *reference, in);
  for (const int threads : team_sizes()) {
    BackendFixture fixture = BackendFixture::onednn(threads);
    for (const std::int64_t block : blocks()) {
      const auto op = fixture.backend().make(desc(block));
      SCOPED_TRACE(op->plan().output.tag);
      EXPECT_EQ(op->plan().needed_inputs, 0U);
      EXPECT_FALSE(op->plan().needs_output);
      expect_same_bits(run(fixture, *op, in), want);
    }
  }
}

TEST_P(Concat, KeepsBlocksThatItNeedNotTear) {
  const std::vector<Shape>& shapes = GetParam().inputs;
  for (const std::int64_t block : {8, 16}) {
    const bool whole =
        is_images() && std::all_of(shapes.begin(), shapes.end() - 1,
                                   [&](const Shape& s) { return s[1] % block == 0; });
    if (!whole) continue;
    BackendFixture fixture = BackendFixture::onednn();
    const ConcatDesc wanted = desc(block);
    const auto op = fixture.backend().make(wanted);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_EQ(op->plan().inputs[i], wanted.inputs[i]);
    }
    const TensorLayout output = image_layout(op->plan().output.shape, block);
    EXPECT_EQ(op->plan().output, output);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Concat, ::testing::ValuesIn(concat_cases()),
                         [](const auto& test) { return test.param.name; });

TEST(ConcatPlan, PutsTheChannelsOfOneInputAfterThoseOfTheOther) {
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(plain_concat({{2, 1, 1, 2}, {2, 2, 1, 2}}));
    EXPECT_EQ(op->plan().output.shape, (Shape{2, 3, 1, 2}));
    const OpInputs in = {.inputs = {{1, 2, 7, 8}, {3, 4, 5, 6, 9, 10, 11, 12}},
                         .grad_output = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}};
    const OpOutputs out = run(fixture, *op, in);
    EXPECT_EQ(out.output, in.grad_output);
    EXPECT_EQ(out.grad_inputs, in.inputs);
  }
}

TEST(ConcatPlan, LeavesOutGradientsThatNobodyWants) {
  for (BackendFixture& fixture : all_backends()) {
    const auto op = fixture.backend().make(plain_concat({{2, 3, 4, 4}, {2, 2, 4, 4}}));
    OpInputs in = random_inputs(*op, 1);
    in.want_grad_inputs = false;
    EXPECT_TRUE(run(fixture, *op, in).grad_inputs.empty());
  }
}

TEST(ConcatPlan, RefusesShapesThatDoNotFit) {
  for (BackendFixture& fixture : all_backends()) {
    const auto concat = [&](const std::vector<Shape>& shapes) {
      return fixture.backend().make(plain_concat(shapes));
    };
    EXPECT_THROW(concat({}), ConfigError);
    EXPECT_THROW(concat({{2, 3, 4, 4}, {2, 3, 4, 5}}), ConfigError);
    EXPECT_THROW(concat({{2, 3, 4, 4}, {1, 3, 4, 4}}), ConfigError);
    EXPECT_THROW(concat({{2, 3, 4, 4}, {2, 3}}), ConfigError);
    EXPECT_THROW(concat({{2}, {2}}), ConfigError);
    EXPECT_THROW(concat({{2, 0}, {2, 3}}), ConfigError);
  }
}

}  // namespace
}  // namespace ddpbench::ops::testing
