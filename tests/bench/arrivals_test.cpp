// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrival at collectives whose backend does not tell it, from the records of all ranks.
#include "bench/run/run_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace ddpbench::bench {
namespace {

constexpr double kArrivalRounding = 1e-12;
constexpr double kUnknownClocks = std::numeric_limits<double>::infinity();

// A step from `begin` on that lasts 1 s, with backward until 0.6 s. It knows no waiting.
launch::StepRecord step_of(std::uint32_t number, double begin) {
  launch::StepRecord step{.step = number, .begin_s = begin, .end_s = begin + 1};
  step.phases_observed = bit_of(Phase::data_wait);
  step.backward_end_s = begin + 0.6;
  step.comm_s = 0.5;
  step.comm_overlapped_s = 0.2;
  return step;
}

launch::BucketRecord untold(std::uint32_t step, std::uint32_t bucket, double start, double end) {
  launch::BucketRecord record{.step = step};
  record.times = {.bucket = bucket,
                  .bytes = 64,
                  .ready_s = start,
                  .start_s = start,
                  .arrived_s = start,
                  .end_s = end,
                  .arrived_told = false};
  return record;
}

// Rank 1 enters bucket 0 of step 0 a quarter of a second after rank 0; both leave it at 0.9 s.
RankRecords late_rank() {
  RankRecords records;
  for (const double start : {0.4, 0.65}) {
    records.steps.push_back({step_of(0, 0)});
    records.buckets.push_back({untold(0, 0, start, 0.9)});
  }
  return records;
}

TEST(WholeCycles, LastTheMeanOfTheirStepsAndCutOnesAreLeftOut) {
  std::vector<launch::StepRecord> steps;
  for (std::uint32_t i = 0; i < 7; ++i) {
    steps.push_back(step_of(i, i));
    steps.back().epoch = i < 3 ? 0 : 1;  // 2 + a cut one, then 2 + 2
  }
  steps[1].end_s = 2.5;  // of the first cycle: 2.5 s
  steps[1].comm_s = 1.5;
  const auto whole = whole_cycles(steps, 2);
  ASSERT_EQ(whole.size(), 3u);
  EXPECT_EQ(whole[0].step, 0u);
  EXPECT_EQ(whole[1].step, 3u);
  EXPECT_EQ(whole[2].step, 5u);
  EXPECT_EQ(step_times(whole)[0], 1.25);
  EXPECT_EQ(whole[0].comm_s, 1);
  EXPECT_EQ(whole[1].comm_overlapped_s, 0.2);
  EXPECT_EQ(step_times(whole_cycles(steps, 1)), step_times(steps));
}

// Two workers of three make each update; the third is in one of them, and skips those meanwhile.
TEST(UpdateIntervals, LieBetweenTheFirstEndsOfSteps) {
  const auto step = [](std::uint32_t number, std::uint32_t epoch, double begin_s, double end_s) {
    launch::StepRecord record = step_of(number, begin_s);
    record.epoch = epoch;
    record.end_s = end_s;
    return record;
  };
  const std::vector<launch::StepRecord> first = {step(0, 0, 1, 2), step(1, 0, 2, 3.5),
                                                 step(2, 1, 6, 7)};
  const std::vector<launch::StepRecord> second = {step(0, 0, 1.25, 2.5), step(1, 0, 2.5, 3),
                                                  step(2, 1, 5.5, 8)};
  std::vector<launch::StepRecord> slow = {step(0, 0, 1, 3.25), step(1, 0, 3.25, 3.26),
                                          step(2, 1, 5.75, 9)};
  slow[1].skipped = 1;
  const auto took = whole_cycles(slow, 1);
  EXPECT_EQ(step_times(took), (std::vector{2.25, 3.25}));
  const std::vector<std::span<const launch::StepRecord>> ranks = {first, second, took};
  EXPECT_EQ(update_intervals(ranks), (std::vector{1.0, 1.0, 1.5}));
}

TEST(Arrivals, AreWhereTheLastRankEnters) {
  RankRecords records = late_rank();
  fill_arrivals(records, 2, 0, true);
  for (const auto& rank : records.buckets) {
    EXPECT_TRUE(rank[0].times.arrived_told);
    EXPECT_EQ(rank[0].times.arrived_s, 0.65);
  }
  const launch::StepRecord& first = records.steps[0][0];
  EXPECT_NEAR(first.comm_wait_s, 0.25, kArrivalRounding);
  EXPECT_NEAR(first.comm_wait_exposed_s, 0.05, kArrivalRounding);  // backward runs until 0.6 s
  EXPECT_NEAR(first.comm_s, 0.25, kArrivalRounding);
  EXPECT_NEAR(first.comm_overlapped_s, 0, kArrivalRounding);
  EXPECT_EQ(records.steps[1][0].comm_wait_s, 0);  // the straggler waits for nobody
}

TEST(Arrivals, NameTheWaitingOfEachRankInFigures) {
  RankRecords records = late_rank();
  fill_arrivals(records, 2, 0, true);
  const std::span<const launch::StepRecord> waiting(records.steps[0]), late(records.steps[1]);
  EXPECT_NEAR(*phase_figures({&waiting, 1}).at("comm_wait_s").value, 0.25, kArrivalRounding);
  EXPECT_EQ(*phase_figures({&late, 1}).at("comm_wait_s").value, 0);
  const auto rows = bucket_rows(records.buckets[0], records.steps[0]);
  EXPECT_EQ(rows.at(0).arrived_s, 0.65);
  EXPECT_EQ(rows.at(0).arrived_reason, "");
}

// Without this, waiting would be reported as 0.
TEST(Arrivals, StayUnknownWithTheReasonWhereRecordsDoNotShowThem) {
  for (int way = 0; way < 3; ++way) {
    RankRecords records = late_rank();
    if (way == 2) records.buckets[1].clear();
    fill_arrivals(records, 2, way == 0 ? kUnknownClocks : 0, way != 1);
    EXPECT_FALSE(records.buckets[0][0].times.arrived_told);
    const std::span<const launch::StepRecord> steps(records.steps[0]);
    const auto figures = phase_figures({&steps, 1});
    EXPECT_FALSE(figures.at("comm_wait_s").value);
    EXPECT_EQ(figures.at("comm_wait_exposed_s").reason, kUntoldWaiting);
    EXPECT_NEAR(*figures.at("comm_s").value, 0.5, kArrivalRounding);
    const auto rows = bucket_rows(records.buckets[0], records.steps[0]);
    EXPECT_EQ(rows.at(0).arrived_reason, kUntoldWaiting);
    EXPECT_EQ(rows.at(0).arrived_s, rows.at(0).start_s);
  }
}

TEST(Arrivals, CountTheStepsThatAllRanksRecorded) {
  RankRecords records = late_rank();
  records.steps[0].push_back(step_of(1, 1));
  records.buckets[0].push_back(untold(1, 0, 1.4, 1.9));  // rank 1 observed no step 1
  fill_arrivals(records, 2, 0, true);
  const std::span<const launch::StepRecord> steps(records.steps[0]);
  EXPECT_NEAR(*phase_figures({&steps, 1}).at("comm_wait_s").value, 0.25, kArrivalRounding);
  EXPECT_NEAR(*phase_figures({&steps, 1}).at("comm_s").value, 0.25, kArrivalRounding);
}

TEST(Arrivals, KeepWhatTheBackendTold) {
  RankRecords records = late_rank();
  for (auto& rank : records.buckets) {
    rank[0].times.arrived_s = 0.7;
    rank[0].times.arrived_told = true;
  }
  fill_arrivals(records, 2, 0, true);
  EXPECT_EQ(records.buckets[0][0].times.arrived_s, 0.7);
  EXPECT_EQ(records.steps[0][0].comm_s, 0.5);
}

// Rank 1 is on another host, whose clock is known within 60 ms. Rank 0 waits 50 ms beside nothing,
// rank 1 never waits.
TEST(Arrivals, AreVagueBelowTheBoundOfTheClocks) {
  constexpr double kBound_s = 0.06;
  RankRecords records = late_rank();
  const double bound_s = fill_arrivals(records, 2, kBound_s, true);
  EXPECT_EQ(bound_s, kBound_s);
  const std::span<const launch::StepRecord> waiting(records.steps[0]), late(records.steps[1]);
  const auto figures = phase_figures({&waiting, 1}, bound_s);
  EXPECT_NEAR(*figures.at("comm_wait_s").value, 0.25, kArrivalRounding);
  EXPECT_NEAR(*figures.at("comm_s").value, 0.25, kArrivalRounding);
  EXPECT_FALSE(figures.at("comm_wait_exposed_s").value);
  EXPECT_THAT(figures.at("comm_wait_exposed_s").reason,
              testing::HasSubstr("below 6e+04 us, within which the clocks of the hosts are known"));
  EXPECT_FALSE(phase_figures({&late, 1}, bound_s).at("comm_wait_s").value);
  const auto first = bucket_rows(records.buckets[0], records.steps[0], bound_s);
  EXPECT_EQ(first.at(0).arrived_reason, "");
  const auto second = bucket_rows(records.buckets[1], records.steps[1], bound_s);
  EXPECT_THAT(second.at(0).arrived_reason, testing::HasSubstr("waiting is below"));
  EXPECT_EQ(second.at(0).arrived_s, second.at(0).start_s);
}

// What the backend tells is of one clock.
TEST(Arrivals, HaveNoBoundWhereTheBackendTellsThem) {
  RankRecords records = late_rank();
  for (auto& rank : records.buckets) rank[0].times.arrived_told = true;
  EXPECT_EQ(fill_arrivals(records, 2, 0.06, true), 0);
}

}  // namespace
}  // namespace ddpbench::bench
