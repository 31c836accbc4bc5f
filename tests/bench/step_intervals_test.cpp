// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/measure/step_intervals.h"

namespace ddpbench::bench {
namespace {

std::vector<std::pair<double, double>> pairs(const std::vector<Interval>& intervals) {
  std::vector<std::pair<double, double>> result;
  for (const Interval& i : intervals) result.emplace_back(i.begin, i.end);
  return result;
}

using Pairs = std::vector<std::pair<double, double>>;

TEST(Intervals, MergeSortsAndJoinsOverlapping) {
  EXPECT_EQ(pairs(merge_intervals({{5, 7}, {1, 3}, {2, 4}})), (Pairs{{1, 4}, {5, 7}}));
}

TEST(Intervals, MergeKeepsTheOuterOfNested) {
  EXPECT_EQ(pairs(merge_intervals({{0, 10}, {2, 3}, {4, 5}, {9, 11}})), (Pairs{{0, 11}}));
}

TEST(Intervals, MergeJoinsTouching) {
  EXPECT_EQ(pairs(merge_intervals({{1, 2}, {2, 3}})), (Pairs{{1, 3}}));
}

TEST(Intervals, MergeDropsEmptyAndReversed) {
  EXPECT_EQ(pairs(merge_intervals({{1, 1}, {3, 2}})), Pairs{});
  EXPECT_EQ(pairs(merge_intervals({})), Pairs{});
}

TEST(Intervals, TotalLengthAddsUp) {
  const std::vector<Interval> merged = {{1, 4}, {5, 7}};
  EXPECT_EQ(total_length(merged), 5);
  EXPECT_EQ(total_length({}), 0);
}

double overlap_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  return communication_times(a, b).overlapped_s;
}

TEST(Intervals, IntersectionCountsEveryCommonPiece) {
  const std::vector<Interval> a = {{0, 4}, {6, 10}};
  const std::vector<Interval> b = {{1, 2}, {3, 7}, {9, 12}};
  EXPECT_EQ(overlap_of(a, b), 1 + 1 + 1 + 1);
  EXPECT_EQ(overlap_of(b, a), 4);
}

TEST(Intervals, IntersectionOfTouchingOrEmptySetsIsZero) {
  const std::vector<Interval> a = {{0, 4}}, b = {{4, 6}};
  EXPECT_EQ(overlap_of(a, b), 0);
  EXPECT_EQ(overlap_of(a, {}), 0);
}

TEST(CommunicationTimes, SplitIntoOverlappedAndExposed) {
  // Two buckets. The second still runs when backward ends at 10. Compute comes in two pieces.
  const auto times = communication_times({{8, 12}, {4, 6}}, {{0, 5}, {5, 10}});
  EXPECT_EQ(times.comm_s, 6);
  EXPECT_EQ(times.overlapped_s, 4);
  EXPECT_EQ(times.exposed_s, 2);
}

TEST(CommunicationTimes, ConcurrentCollectivesCountOnce) {
  const auto times = communication_times({{0, 4}, {2, 6}}, {});
  EXPECT_EQ(times.comm_s, 6);
  EXPECT_EQ(times.overlapped_s, 0);
  EXPECT_EQ(times.exposed_s, 6);
}

TEST(CommunicationTimes, ExposedIsNeverNegative) {
  std::vector<Interval> communication, compute = {{0, 1}};
  for (int i = 0; i < 10; ++i) communication.push_back({i * 0.1, i * 0.1 + 0.07});
  const auto times = communication_times(communication, compute);
  EXPECT_GE(times.exposed_s, 0);
  EXPECT_NEAR(times.overlapped_s, 0.7, 1e-12);  // ten roundings of about 1e-16
}

}  // namespace
}  // namespace ddpbench::bench
