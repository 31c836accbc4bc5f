// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Counted bytes against sums by hand.
#include "bench/micro/ops_bench.h"
#include "tests/ops/op_harness.h"
#include "tests/ops/shape_cases.h"

namespace ddpbench::ops::testing {
namespace {

constexpr double kFloat = 4;

TEST(OpBytes, OfAConvolutionIsItsMapsAndWeightsOnce) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(conv({2, 3, 5, 5}, 4, 3));
  const double x = 2 * 3 * 25 * kFloat, y = 2 * 4 * 9 * kFloat, w = (4 * 27 + 4) * kFloat;
  EXPECT_EQ(op_bytes(op->plan(), true, true), x + w + y);
  EXPECT_EQ(op_bytes(op->plan(), false, false), y + x + w);
  EXPECT_EQ(op_bytes(op->plan(), false, true), y + 2 * x + 2 * w);
}

TEST(OpBytes, OfAFusedReluReadsTheOutputBackward) {
  BackendFixture fixture = BackendFixture::reference();
  const auto op = fixture.backend().make(with_relu(linear({8, 10}, 6)));
  const double x = 80 * kFloat, y = 48 * kFloat, w = 66 * kFloat;
  EXPECT_EQ(op_bytes(op->plan(), true, true), x + w + y);
  EXPECT_EQ(op_bytes(op->plan(), false, false), 2 * y + x + w);
  EXPECT_EQ(op_bytes(op->plan(), false, true), 2 * y + 2 * x + 2 * w);
}

TEST(OpBytes, OfElementwiseOperationsIsAMapForEachOperand) {
  BackendFixture fixture = BackendFixture::reference();
  const TensorLayout layout = TensorLayout::plain({3, 7});
  const double map = 21 * kFloat;
  const auto relu = fixture.backend().make(ActivationDesc{layout});
  EXPECT_EQ(op_bytes(relu->plan(), true, true), 2 * map);
  EXPECT_EQ(op_bytes(relu->plan(), false, true), 3 * map);
  const auto add = fixture.backend().make(AddDesc{layout});
  EXPECT_EQ(op_bytes(add->plan(), true, true), 3 * map);
  EXPECT_EQ(op_bytes(add->plan(), false, true), 3 * map);
}

TEST(OpBytes, OfAPoolHasWhatItKeeps) {
  BackendFixture fixture = BackendFixture::onednn();
  const auto op =
      fixture.backend().make(pool_cases()[0].desc(TensorLayout::plain({2, 32, 28, 28}), true));
  const double x = 2 * 32 * 784 * kFloat, y = x / 4;
  const auto kept = static_cast<double>(op->plan().saved_bytes);
  EXPECT_GT(kept, 0);
  EXPECT_EQ(op_bytes(op->plan(), true, true), x + y + kept);
  EXPECT_EQ(op_bytes(op->plan(), false, true), x + y + kept);
}

}  // namespace
}  // namespace ddpbench::ops::testing
