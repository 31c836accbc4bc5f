// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/measure/step_recorder.h"

namespace ddpbench::bench {
namespace {

TEST(Intervals, CoverWhatOneOfThemCovers) {
  EXPECT_EQ(covered_s({{5, 7}, {1, 3}, {2, 4}}), 5);
  EXPECT_EQ(covered_s({{0, 10}, {2, 3}, {4, 5}, {9, 11}}), 11);  // nested
  EXPECT_EQ(covered_s({{1, 2}, {2, 3}}), 2);                     // touching
  EXPECT_EQ(covered_s({{1, 1}, {3, 2}}), 0);                     // empty, reversed
  EXPECT_EQ(covered_s({}), 0);
}

launch::StepRecord communication(std::vector<Interval> moved, std::vector<Interval> compute) {
  launch::StepRecord record;
  fill_communication({std::move(compute), std::move(moved), {}}, record);
  return record;
}

TEST(Communication, OverlapsInEveryCommonPiece) {
  const std::vector<Interval> a = {{0, 4}, {6, 10}};
  const std::vector<Interval> b = {{1, 2}, {3, 7}, {9, 12}};
  EXPECT_EQ(communication(a, b).comm_overlapped_s, 1 + 1 + 1 + 1);
  EXPECT_EQ(communication(b, a).comm_overlapped_s, 4);
  EXPECT_EQ(communication({{0, 4}}, {{4, 6}}).comm_overlapped_s, 0);
  EXPECT_EQ(communication(a, {}).comm_overlapped_s, 0);
}

TEST(Communication, IsSplitIntoOverlappedAndExposed) {
  // Two buckets. The second still runs when backward ends at 10. Compute comes in two pieces.
  const auto record = communication({{8, 12}, {4, 6}}, {{0, 5}, {5, 10}});
  EXPECT_EQ(record.comm_s, 6);
  EXPECT_EQ(record.comm_overlapped_s, 4);
}

TEST(Communication, CountsConcurrentCollectivesOnce) {
  const auto record = communication({{0, 4}, {2, 6}}, {});
  EXPECT_EQ(record.comm_s, 6);
  EXPECT_EQ(record.comm_overlapped_s, 0);
}

TEST(Communication, NeverOverlapsMoreThanThereIs) {
  std::vector<Interval> moved;
  for (int i = 0; i < 10; ++i) moved.push_back({i * 0.1, i * 0.1 + 0.07});
  const auto record = communication(moved, {{0, 1}});
  EXPECT_LE(record.comm_overlapped_s, record.comm_s);
  EXPECT_NEAR(record.comm_overlapped_s, 0.7, 1e-12);  // ten roundings of about 1e-16
}

}  // namespace
}  // namespace ddpbench::bench
