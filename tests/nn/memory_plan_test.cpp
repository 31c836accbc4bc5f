// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors that live at the same time lie apart; others share memory.
#include "kernels/nn/plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ddpbench::nn {
namespace {

TEST(MemoryPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_memory({}).bytes, 0u); }

TEST(MemoryPlan, SharesMemoryBetweenTensorsThatNeverLiveTogether) {
  const std::vector<Lifetime> lifetimes = {{640, 0, 1}, {640, 2, 3}, {64, 1, 2}};
  const MemoryPlan plan = plan_memory(lifetimes);
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 704u);
}

TEST(MemoryPlan, TensorsThatMeetInOneStepLieApart) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 1, 2}};
  const MemoryPlan plan = plan_memory(lifetimes);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128u);
}

TEST(MemoryPlan, FillsAGapThatIsLargeEnough) {
  // Two live together: 256, and 128 above it. The last fits below 128 when 256 is free again.
  const std::vector<Lifetime> lifetimes = {{256, 0, 1}, {128, 0, 3}, {192, 2, 3}};
  EXPECT_EQ(plan_memory(lifetimes).bytes, 384u);
}

TEST(MemoryPlan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < 200; ++i) {
    const std::size_t first = random() % 50;
    lifetimes.push_back({random() % 1000, first, first + random() % 10});
  }
  const MemoryPlan plan = plan_memory(lifetimes);
  std::size_t all = 0;
  for (std::size_t i = 0; i < lifetimes.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % kTensorAlignment, 0u);
    EXPECT_LE(plan.offsets[i] + lifetimes[i].bytes, plan.bytes);
    all += lifetimes[i].bytes;
    for (std::size_t j = 0; j < i; ++j) {
      const bool together =
          lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      const bool apart = plan.offsets[i] + lifetimes[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + lifetimes[j].bytes <= plan.offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
  EXPECT_LT(plan.bytes, all / 2);
}

}  // namespace
}  // namespace ddpbench::nn
