// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Random numbers: the sequences of seeds, on which recorded results depend.
#include "base/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace ddpbench {
namespace {

// The reference implementation's first numbers (Vigna, splitmix64.c) from state 1234567.
TEST(SplitMix, GivesThePublishedSequence) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317U);
  EXPECT_EQ(random.next(), 3203168211198807973U);
  EXPECT_EQ(random.next(), 9817491932198370423U);
}

TEST(SplitMix, GivesEachStreamOfASeedASequenceOfItsOwn) {
  std::set<std::uint64_t> first;
  for (std::uint64_t stream = 0; stream < 100; ++stream) {
    first.insert(SplitMix64(7, stream).next());
    first.insert(SplitMix64(8, stream).next());
  }
  EXPECT_EQ(first.size(), 200U);
}

TEST(SplitMix, StaysBelowItsBoundAndReachesAllOfIt) {
  SplitMix64 random(1, 2);
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3, 4, 5, 6));
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform(-2, 3);
    EXPECT_GE(value, -2);
    EXPECT_LT(value, 3);
  }
  EXPECT_EQ(random.below(1), 0U);
}

}  // namespace
}  // namespace ddpbench
