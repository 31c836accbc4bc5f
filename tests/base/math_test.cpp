// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers, and the clocks' formats.
#include "base/math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "base/clock.h"

namespace ddpbench {
namespace {

TEST(Math, DividesRoundingUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(8, 4), 2);
  EXPECT_EQ(ceil_div(std::int64_t{9}, 4), 3);
}

TEST(Math, RoundsUpToAMultipleThatNeedBeNoPowerOfTwo) {
  EXPECT_EQ(round_up(std::size_t{0}, 64), 0U);
  EXPECT_EQ(round_up(std::size_t{64}, 64), 64U);
  EXPECT_EQ(round_up(std::size_t{65}, 64), 128U);
  EXPECT_EQ(round_up(std::size_t{7}, 6), 12U);
}

TEST(Clock, NeverGoesBack) {
  const double begin_s = steady_s();
  EXPECT_GE(steady_s(), begin_s);
}

TEST(Clock, WritesUtc) {
  EXPECT_THAT(
      utc_time("%Y-%m-%dT%H:%M:%SZ"),
      testing::MatchesRegex("20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
  EXPECT_EQ(utc_time("%%"), "%");
}

}  // namespace
}  // namespace ddpbench
