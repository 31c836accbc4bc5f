// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// batch_norm2d over the parts of a divided batch against the reference over the whole. Tolerances
// as in batch_norm2d_test.cpp: the sums are the same, in another order.
#include <cmath>

#include "base/error.h"
#include "tests/ops/norm_parts.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

struct DividedBatch {
  const char* name;
  std::size_t parts;
  Shape whole;
  bool affine = true, add = false, relu = false;
};

std::vector<OpOutputs> run_parts(const OpInputs& whole, std::size_t parts,
                                 const BatchNorm2dDesc& of_part) {
  return run_norm_parts([] { return BackendFixture::onednn(); }, whole, parts, of_part);
}

class BatchNormParts : public ::testing::TestWithParam<DividedBatch> {
 protected:
  static BatchNorm2dDesc desc(const TensorLayout& input) {
    return {.input = input,
            .affine = GetParam().affine,
            .fuse_add = GetParam().add,
            .fuse_relu = GetParam().relu};
  }
  static Shape part_shape() {
    Shape shape = GetParam().whole;
    shape[0] /= static_cast<std::int64_t>(GetParam().parts);
    return shape;
  }
  static OpInputs whole_batch(const Op& op) {
    OpInputs in = random_inputs(op, 1);
    const auto channels = GetParam().whole[1];
    in.state = {random_values(channels, 11), random_values(channels, 12), {41}};
    for (float& variance : in.state[1]) variance = 1.5F + variance;
    return in;
  }
  static std::vector<OpOutputs> run_parts(const OpInputs& whole, std::int64_t block) {
    return testing::run_parts(whole, GetParam().parts, desc(image_layout(part_shape(), block)));
  }
};

TEST_P(BatchNormParts, AreTheWholeBatch) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc(TensorLayout::plain(GetParam().whole)));
  const OpInputs in = whole_batch(*reference);
  const OpOutputs want = run(plain, *reference, in);
  const std::size_t parts = GetParam().parts;
  // Variances of uniform values are about 1/3; the smallest of these few channels is above 1/9.
  constexpr double kScale = 3;
  for (const std::int64_t block : {std::int64_t{1}, std::int64_t{16}, part_shape()[1]}) {
    SCOPED_TRACE(block);
    const std::vector<OpOutputs> got = run_parts(in, block);
    for (std::size_t p = 0; p < parts; ++p) {
      EXPECT_TRUE(all_near(got[p].output, part_of(want.output, p, parts), 16 * kEpsilon * kScale));
      for (std::size_t i = 0; i < want.grad_inputs.size(); ++i) {
        EXPECT_TRUE(all_near(got[p].grad_inputs[i], part_of(want.grad_inputs[i], p, parts),
                             16 * kEpsilon * kScale * (2 + 2 * kScale)))
            << "input " << i;
      }
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(all_near(got[p].state[i], want.state[i], 8 * kEpsilon));
        EXPECT_TRUE(same_bits(got[p].state[i], got[0].state[i]));
      }
      EXPECT_EQ(got[p].state[2], Values{42});
    }
    // The parameters' gradients of the parts add up to those of the whole.
    const Shape& shape = GetParam().whole;
    for (std::size_t i = 0; i < want.grad_parameters.size(); ++i) {
      Values sum(want.grad_parameters[i].size());
      for (const OpOutputs& part : got) {
        for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += part.grad_parameters[i][c];
      }
      EXPECT_TRUE(all_near(sum, want.grad_parameters[i],
                           sum_tolerance(shape[0] * shape[2] * shape[3]) * (1 + 2 * kScale)));
    }
  }
}

TEST_P(BatchNormParts, EvaluateApart) {
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(desc(TensorLayout::plain(GetParam().whole)));
  OpInputs in = whole_batch(*reference);
  in.mode = Mode::evaluation;
  const OpOutputs want = run(plain, *reference, in);
  const std::size_t parts = GetParam().parts;
  const std::vector<OpOutputs> got = run_parts(in, 1);
  for (std::size_t p = 0; p < parts; ++p) {
    EXPECT_TRUE(
        all_near(got[p].output, part_of(want.output, p, parts), 16 * kEpsilon * std::sqrt(2.0)));
    EXPECT_EQ(got[p].state, in.state);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Batches, BatchNormParts,
    ::testing::Values(DividedBatch{"Two", 2, {8, 5, 7, 6}},
                      DividedBatch{"Three", 3, {6, 17, 5, 5}, true, true, true},
                      DividedBatch{"WithRelu", 2, {4, 32, 6, 6}, true, false, true},
                      DividedBatch{"WithoutParameters", 4, {8, 3, 4, 4}, false}),
    [](const auto& test) { return test.param.name; });

// Means that differ between the parts, and are large beside the deviations.
TEST(BatchNormOfParts, KeepsSmallDeviationsFromMeansThatDiffer) {
  constexpr std::size_t kParts = 2;
  const Shape whole = {4, 3, 8, 8}, part = {2, 3, 8, 8};
  BackendFixture plain = BackendFixture::reference();
  const auto reference = plain.backend().make(BatchNorm2dDesc{TensorLayout::plain(whole)});
  OpInputs in = random_inputs(*reference, 1);
  for (std::size_t i = 0; i < in.inputs[0].size(); ++i) {
    in.inputs[0][i] += i < in.inputs[0].size() / 2 ? 1000.0F : 1002.0F;
  }
  const OpOutputs want = run(plain, *reference, in);
  for (const OpOutputs& got : run_parts(in, kParts, {TensorLayout::plain(part)})) {
    EXPECT_TRUE(all_near(got.state[1], want.state[1], 8 * kEpsilon));
  }
}

// The mean of each channel lies in the middle between two fp32 values. What it is rounded to must
// not depend on how the batch is divided.
Values with_means_between_values(const Shape& shape) {
  const std::int64_t pixels = shape[2] * shape[3], values = shape[0] * pixels;
  Values steps = random_values(shape[0] * shape[1] * pixels, 3);
  for (float& step : steps) step = std::floor(4 * (step + 1));  // 0 to 7
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    std::int64_t sum = 0;
    const auto at = [&](std::int64_t n, std::int64_t p) -> float& {
      return steps[static_cast<std::size_t>((n * shape[1] + c) * pixels + p)];
    };
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t p = 0; p < pixels; ++p) sum += static_cast<std::int64_t>(at(n, p));
    }
    const std::int64_t missing = values + values / 2 - sum % values;
    at(shape[0] - 1, pixels - 1) += static_cast<float>(missing);
  }
  for (float& step : steps) step = 1 + step * static_cast<float>(kEpsilon);
  return steps;
}

TEST(BatchNormOfParts, RoundsMeansAsTheWholeBatchDoes) {
  constexpr std::size_t kParts = 4;
  const Shape whole = {8, 256, 7, 7}, part = {2, 256, 7, 7};
  BackendFixture one = BackendFixture::onednn();
  const auto op = one.backend().make(BatchNorm2dDesc{TensorLayout::plain(whole)});
  OpInputs in = random_inputs(*op, 1);
  in.inputs[0] = with_means_between_values(whole);
  const OpOutputs want = run(one, *op, in);
  const auto got = run_parts(in, kParts, {TensorLayout::plain(part)});
  for (std::size_t p = 0; p < kParts; ++p) {
    EXPECT_TRUE(same_bits(got[p].output, part_of(want.output, p, kParts)));
  }
}

TEST(BatchNormOfParts, IsRefusedByTheReference) {
  BackendFixture fixture = BackendFixture::reference();
  GatherThroughHost::Meeting meeting(2);
  GatherThroughHost gather(meeting, 0, fixture.device());
  EXPECT_THROW(fixture.backend().make(
                   BatchNorm2dDesc{.input = TensorLayout::plain({2, 3, 4, 4}), .parts = &gather}),
               DeviceError);
}

}  // namespace
}  // namespace ddpbench::ops::testing
