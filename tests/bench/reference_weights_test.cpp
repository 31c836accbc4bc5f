// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/rank/reference_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using Tensors = std::vector<nn::NamedTensor>;

const Tensors kBefore{{"a", {2}, {1, 1}}, {"b", {1}, {5}}};
const Tensors kAfter{{"a", {2}, {4, 5}}, {"b", {1}, {7}}};  // changes: (3, 4) and 2

ReferenceWeights stored() {
  auto weights = ReferenceWeights::create(3);
  weights.store(kBefore, kAfter);
  return weights;
}

TEST(ReferenceWeights, FindsNoErrorInEqualWeights) {
  const auto result = stored().compare(kBefore, kAfter);
  EXPECT_EQ(result.max_relative_error, 0);
}

TEST(ReferenceWeights, MeasuresTheErrorRelativeToTheTensorsChange) {
  Tensors after = kAfter;
  after[0].values[1] += 0.5f;  // 0.5 of a change of length 5
  const auto result = stored().compare(kBefore, after);
  EXPECT_NEAR(result.max_relative_error, 0.1, 1e-6);
  EXPECT_EQ(result.worst_tensor, "a");
}

TEST(ReferenceWeights, TakesTheWorstTensor) {
  Tensors after = kAfter;
  after[0].values[1] += 0.5f;
  after[1].values[0] += 1;  // half of its change of 2
  const auto result = stored().compare(kBefore, after);
  EXPECT_NEAR(result.max_relative_error, 0.5, 1e-6);
  EXPECT_EQ(result.worst_tensor, "b");
}

TEST(ReferenceWeights, CallsNotANumberInfinitelyWrong) {
  Tensors after = kAfter;
  after[1].values[0] = std::nanf("");
  EXPECT_TRUE(std::isinf(stored().compare(kBefore, after).max_relative_error));
}

TEST(ReferenceWeights, RefusesOtherStartingWeights) {
  Tensors before = kBefore;
  before[1].values[0] += 1;
  EXPECT_THROW(stored().compare(before, kAfter), VerificationError);
}

TEST(ReferenceWeights, HashesTellOneBitApart) {
  Tensors after = kAfter;
  after[0].values[0] = std::nextafter(after[0].values[0], 10.0f);
  EXPECT_NE(stored().compare(kBefore, after).weights_hash,
            stored().compare(kBefore, kAfter).weights_hash);
}

TEST(ReferenceWeights, IsNotUsedBeforeItIsComplete) {
  const auto weights = ReferenceWeights::create(3);
  EXPECT_FALSE(weights.complete());
  EXPECT_THROW(weights.compare(kBefore, kAfter), InternalError);
}

}  // namespace
}  // namespace ddpbench::bench
