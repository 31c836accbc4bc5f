// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of each kind of chart, from reports with known figures.
#include "reports/charts/chart_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "reports/metrics/metrics.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_report;
using test::sample_run;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Run repetition(const char* strategy, int world_size, double samples_per_s, int number) {
  report::Run run = sample_run(strategy, world_size, samples_per_s);
  run.repetition = number;
  run.scaling = Scaling{"single", samples_per_s / 100, samples_per_s / 100 / world_size};
  run.scaling_reason.clear();
  return run;
}

ScalingChart scaling_of(std::vector<Run> runs) {
  const Report report = report_of(std::move(runs));
  return scaling_chart({&report, 1});
}

TEST(ScalingChart, TakesTheMedianOfRepetitionsAndTheirExtremes) {
  const ScalingChart chart =
      scaling_of({repetition("single", 1, 100, 0), repetition("ddp", 2, 150, 0),
                  repetition("ddp", 2, 190, 1), repetition("ddp", 2, 180, 2)});
  ASSERT_EQ(chart.points.size(), 2U);
  const ScalingPoint& point = chart.points[1];
  EXPECT_EQ(chart.series[point.series].name, "ddp");
  EXPECT_EQ(point.devices, 2);
  EXPECT_EQ(point.samples_per_s.median, 180);
  EXPECT_EQ(point.samples_per_s.min, 150);
  EXPECT_EQ(point.samples_per_s.max, 190);
  EXPECT_EQ(point.samples_per_s.count, 3);
  ASSERT_TRUE(point.efficiency);
  EXPECT_DOUBLE_EQ(point.efficiency->median, 0.9);
  EXPECT_DOUBLE_EQ(point.efficiency->min, 0.75);
  EXPECT_DOUBLE_EQ(point.efficiency->max, 0.95);
}

TEST(ScalingChart, OrdersByStrategyAndDevicesWhateverTheOrderOfRuns) {
  const ScalingChart chart =
      scaling_of({repetition("ps", 2, 1, 0), repetition("ddp", 4, 1, 0), repetition("ddp", 2, 1, 0),
                  repetition("new", 2, 1, 0), repetition("single", 1, 100, 0)});
  std::vector<std::string> order;
  std::vector<std::size_t> styles;
  for (const ScalingPoint& point : chart.points) {
    order.push_back(chart.series[point.series].name + std::to_string(point.devices));
    styles.push_back(chart.series[point.series].style);
  }
  EXPECT_THAT(order, ElementsAre("single1", "ddp2", "ddp4", "ps2", "new2"));
  EXPECT_THAT(styles, ElementsAre(0, 2, 2, 3, 4));
}

TEST(ScalingChart, OrdersSettingsByTheirNumbers) {
  std::vector<report::Run> runs;
  for (const int batch : {32, 8, 128, 16}) {
    runs.push_back(repetition("ddp", 2, 100, 0));
    runs.back().per_device_batch_size = batch;
    runs.back().global_batch_size = 2 * batch;
  }
  std::vector<std::string> order;
  for (const ChartSeries& series : scaling_of(runs).series) order.push_back(series.name);
  EXPECT_THAT(order, ElementsAre(HasSubstr("batch 8"), HasSubstr("batch 16"), HasSubstr("batch 32"),
                                 HasSubstr("batch 128")));
}

TEST(ScalingChart, IdealIsSingleTimesDevices) {
  const ScalingChart chart =
      scaling_of({repetition("single", 1, 100, 0), repetition("single", 1, 110, 1),
                  repetition("ddp", 2, 150, 0)});
  ASSERT_EQ(chart.ideals.size(), 1U);
  EXPECT_EQ(chart.ideals[0].name, "ideal");
  // At the median step of the two: the mean of their rates is another.
  EXPECT_DOUBLE_EQ(chart.ideals[0].samples_per_s_per_device, 2 / (1 / 100.0 + 1 / 110.0));
  EXPECT_THAT(scaling_of({repetition("ddp", 2, 150, 0)}).ideals, IsEmpty());
}

TEST(ScalingChart, OversubscribedPointsHaveNoEfficiency) {
  report::Run crowded = repetition("ddp", 4, 150, 0);
  crowded.oversubscribed = true;
  const ScalingChart chart = scaling_of({repetition("single", 1, 100, 0), crowded});
  EXPECT_TRUE(chart.points[1].oversubscribed);
  EXPECT_FALSE(chart.points[1].efficiency);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("* or hollow: oversubscribed")));
}

TEST(ScalingChart, ShowsNoEfficiencyWhereTheBaselineWasDisturbed) {
  report::Run single = repetition("single", 1, 100, 0);
  single.conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  const ScalingChart loaded = scaling_of({single, repetition("ddp", 2, 150, 0)});
  EXPECT_FALSE(loaded.points[1].efficiency);
  EXPECT_THAT(loaded.ideals, IsEmpty());
  EXPECT_THAT(loaded.caption.notes,
              Contains(HasSubstr("baseline disturbed: other programs used 71 % of the CPU")));
  const ScalingChart beyond = scaling_of(
      {repetition("single", 1, 100, 0), repetition("dp", 2, 150, 0), repetition("ddp", 2, 340, 0)});
  EXPECT_FALSE(beyond.points[1].efficiency) << "divided by the same run";
  EXPECT_FALSE(beyond.points[2].efficiency);
  EXPECT_THAT(beyond.caption.notes, Contains(HasSubstr("cannot be 3.4 times as fast as one")));
}

// One repetition of many says nothing of the others.
TEST(ScalingChart, ShowsTheEfficiencyOfRunsOfWhichFewWereDisturbed) {
  std::vector<report::Run> runs = {repetition("single", 1, 100, 0)};
  for (int i = 0; i < 4; ++i) runs.push_back(repetition("ddp", 2, 150, i));
  runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  EXPECT_TRUE(scaling_of(runs).points[1].efficiency);
  runs[2].conditions = runs[1].conditions;
  EXPECT_FALSE(scaling_of(runs).points[1].efficiency);
}

TEST(ScalingChart, NamesRunsThatItLeavesOutAndWhy) {
  const Report report = sample_report();
  const ScalingChart chart = scaling_chart({&report, 1});
  EXPECT_EQ(chart.points.size(), 4U);
  EXPECT_THAT(chart.caption.notes,
              Contains("left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA "
                       "device is here)"));
}

TEST(ScalingChart, LeavesOutRunsWhoseVerificationFailed) {
  report::Run wrong = repetition("ddp", 2, 150, 0);
  wrong.verification.status = "failed";
  const ScalingChart chart = scaling_of({repetition("single", 1, 100, 0), wrong});
  EXPECT_EQ(chart.points.size(), 1U);
  EXPECT_THAT(chart.caption.notes, Contains("left out: ddp on 2 (the verification failed)"));
}

TEST(ScalingChart, LeavesOutNumbersThatWouldSpoilTheAxes) {
  report::Run absurd = repetition("ddp", 2, 150, 0);
  absurd.samples_per_s = Figure::of(1e300);
  EXPECT_EQ(scaling_of({repetition("single", 1, 100, 0), absurd}).points.size(), 1U);
}

TEST(ScalingChart, SaysWhyThereIsNothingToDraw) {
  EXPECT_EQ(scaling_of({}).empty_reason, "there are no runs");
  report::Run run = sample_run("ddp", 2, 1);
  run.status = Status::failed;
  run.error = ErrorInfo{.kind = "signal", .message = "killed"};
  EXPECT_EQ(scaling_of({run}).empty_reason, "left out: ddp on 2 (failed: killed)");
}

Report sweep_of(int count) {
  std::vector<report::Run> runs;
  for (int i = 0; i < count; ++i) {
    runs.push_back(sample_report().runs[2]);
    runs.back().strategy_options = {{"bucket_cap_mb", std::to_string(i)}};
  }
  return report_of(runs);
}

// A sweep of 50 runs, as users make them, is drawn whole.
TEST(ChartsOfASweep, DropNoRun) {
  const Report report = sweep_of(50);
  const std::span<const Report> reports(&report, 1);
  EXPECT_EQ(breakdown_chart(reports).bars.size(), 50U);
  EXPECT_EQ(memory_chart(reports).bars.size(), 50U * 2);
  EXPECT_EQ(steps_chart(reports).groups.size(), 50U);
  EXPECT_EQ(buckets_chart(reports).groups.size(), 50U);
}

TEST(ChartsOfASweep, NameTheRunsForWhichThereIsNoRoom) {
  const Report report = sweep_of(62);
  const BucketsChart chart = buckets_chart({&report, 1});
  EXPECT_EQ(chart.groups.size(), 60U);
  EXPECT_THAT(chart.caption.notes,
              Contains(HasSubstr("no room for 2 of 62 in a picture: ddp on 2, bucket cap 60 MiB, "
                                 "ddp on 2, bucket cap 61 MiB; the options that choose")));
  EXPECT_EQ(scaling_chart({&report, 1}).points.size(), 62U) << "its lines lie upon each other";
}

TEST(ChartsOfASweep, KeepTheColourOfAStrategy) {
  std::vector<report::Run> runs;
  for (const char* strategy : {"single", "dp", "ddp", "ps"}) {
    for (const char* precision : {"fp32", "bf16"}) {
      runs.push_back(repetition(strategy, 2, 100, 0));
      runs.back().precision = precision;
    }
  }
  std::vector<std::size_t> styles, variants;
  for (const ChartSeries& series : scaling_of(runs).series) {
    styles.push_back(series.style);
    variants.push_back(series.variant);
  }
  EXPECT_THAT(styles, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(variants, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(Charts, NameEveryRunThatTheyLeaveOut) {
  std::vector<report::Run> runs = {repetition("single", 1, 100, 0)};
  for (int i = 0; i < 20; ++i) {
    runs.push_back(sample_run("ddp", 2 + i, 1));
    runs.back().status = Status::failed;
    runs.back().error = ErrorInfo{.kind = "signal", .message = "reason " + std::to_string(i)};
  }
  const ScalingChart chart = scaling_of(runs);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(chart.caption.notes,
                Contains(::testing::ContainsRegex("ddp on " + std::to_string(2 + i) + "[ ,]")));
  }
}

TEST(BreakdownChart, StacksPhasesAndWhatIsLeftOfTheStep) {
  const Report report = report_of({sample_run("ddp", 2, 1)});
  const StackedChart chart = breakdown_chart({&report, 1});
  EXPECT_THAT(chart.parts,
              ElementsAre("input wait", "forward", "backward", "communication not hidden", "update",
                          "waiting for devices", "other"));
  ASSERT_EQ(chart.bars.size(), 1U);
  EXPECT_EQ(chart.bars[0].name, "ddp on 2");
  EXPECT_DOUBLE_EQ(chart.bars[0].whole, 0.02);
  EXPECT_DOUBLE_EQ(chart.bars[0].parts[3], 0.0003);
  EXPECT_NEAR(chart.bars[0].parts[6], 0.02 - 0.0001 - 0.006 - 0.012 - 0.0003 - 0.001, 1e-15);
}

TEST(BreakdownChart, CountsExchangesOfBatchNormAsExposedCommunication) {
  report::Run run = sample_run("dp", 2, 1);
  run.phases["sync_batch_norm_s"] = Figure::of(0.0004);
  run.devices[1].phases = {{"forward_s", Figure::of(0.004)},
                           {"sync_batch_norm_s", Figure::of(0.001)},
                           {"comm_wait_s", Figure::of(0.003)},
                           {"idle_s", Figure::of(0.002)}};
  const Report report = report_of({run});
  const StackedChart chart = breakdown_chart({&report, 1});
  ASSERT_EQ(chart.bars.size(), 2U);
  EXPECT_DOUBLE_EQ(chart.bars[0].parts[3], 0.0003 + 0.0004);
  EXPECT_NEAR(chart.bars[0].parts[6], 0.02 - 0.0001 - 0.006 - 0.012 - 0.0007 - 0.001, 1e-15);
  EXPECT_DOUBLE_EQ(chart.bars[1].parts[3], 0.001);
  EXPECT_NEAR(chart.bars[1].parts[6], 0.01, 1e-15);
}

TEST(BreakdownChart, OtherIsNeverNegative) {
  report::Run run = sample_run("ddp", 2, 1);
  run.step.time_s->median = 0.015;
  const Report report = report_of({run});
  const StackedChart chart = breakdown_chart({&report, 1});
  EXPECT_EQ(chart.bars[0].parts[6], 0);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("they exceed it by up to 29 %")));
}

TEST(BreakdownChart, TellsTheIdleTimeOfStagesBesideItsBound) {
  report::Run run = sample_run("pipeline", 2, 1);
  run.strategy_options = {{"stages", "2"}, {"micro_batches", "4"}};
  for (DeviceRow& device : run.devices) {
    device.step_time_median_s = Figure::of(0.02);
    device.phases["stage_wait_s"] = Figure::of(0.005);
  }
  const Report report = report_of({run});
  EXPECT_THAT(breakdown_chart({&report, 1}).caption.notes,
              Contains(HasSubstr("stages idle 25/25 % (equal ones at least 20 %)")));
}

TEST(BreakdownChart, CountsAPhaseThatARunHasNotAsNoTime) {
  report::Run run = sample_run("single", 1, 1);
  run.phases.erase("optimizer_s");
  const Report report = report_of({run});
  const StackedChart chart = breakdown_chart({&report, 1});
  EXPECT_EQ(chart.bars[0].parts[3], 0);  // "one device"
  EXPECT_EQ(chart.bars[0].parts[4], 0);
}

// The imbalance of dp: its other devices wait while the primary works.
TEST(BreakdownChart, SetsTheOtherDevicesOfDpBesideThePrimary) {
  report::Run run = sample_run("dp", 3, 1);
  run.phases["comm_wait_exposed_s"] = Figure::of(0.0005);
  for (std::size_t i = 1; i < 3; ++i) {
    run.devices[i].phases = {{"forward_s", Figure::of(0.004)},
                             {"backward_s", Figure::of(0.008)},
                             {"comm_wait_s", Figure::of(0.003)},
                             {"idle_s", Figure::of(0.002 * static_cast<double>(i))}};
  }
  const Report report = report_of({run});
  const StackedChart chart = breakdown_chart({&report, 1});
  ASSERT_EQ(chart.bars.size(), 2U);
  EXPECT_EQ(chart.bars[0].label, "primary");
  EXPECT_DOUBLE_EQ(chart.bars[0].parts[5], 0.0005);
  const StackedBar& others = chart.bars[1];
  EXPECT_EQ(others.label, "others");
  EXPECT_DOUBLE_EQ(others.whole, 0.02);
  EXPECT_DOUBLE_EQ(others.parts[1], 0.004);
  EXPECT_DOUBLE_EQ(others.parts[2], 0.008);
  EXPECT_DOUBLE_EQ(others.parts[5], 0.006);  // the median of 5 and 7 ms
  EXPECT_NEAR(others.parts[6], 0.002, 1e-15);
  EXPECT_EQ(chart.part_styles.size(), chart.parts.size());
}

TEST(BreakdownChart, LeavesOutRunsThatWereNotObserved) {
  report::Run run = sample_run("ddp", 2, 1);
  run.phases["forward_s"] = Figure::missing("observing is off");
  const Report report = report_of({run});
  EXPECT_EQ(breakdown_chart({&report, 1}).empty_reason, "left out: ddp on 2 (observing is off)");
}

TEST(MemoryChart, SetsThePrimaryBesideTheLargestOtherAndServers) {
  report::Run run = sample_run("ps", 3, 1);
  run.devices[2].peak_bytes = 35;
  run.devices[1].peak_bytes = 30;
  run.devices[2].by_category_bytes = {{"weights", 20}, {"custom", 7}, {"gradients", 9}};
  run.devices.push_back(run.devices[0]);
  run.devices.back().role = "server";
  const Report report = report_of({run});
  const StackedChart chart = memory_chart({&report, 1});
  EXPECT_THAT(chart.parts, ElementsAre("weights", "gradients", "activations", "custom"));
  ASSERT_EQ(chart.bars.size(), 3U);
  EXPECT_EQ(chart.bars[0].label, "primary");
  EXPECT_EQ(chart.bars[1].label, "others (most of 2)");
  EXPECT_EQ(chart.bars[2].label, "server");
  EXPECT_EQ(chart.bars[1].whole, 35);
  EXPECT_THAT(chart.bars[1].parts, ElementsAre(20, 9, 0, 7));
}

// Imports tell the peak alone.
TEST(MemoryChart, DrawsAPeakThatIsNotSplitIntoCategories) {
  report::Run run = sample_run("ddp", 2, 1);
  for (DeviceRow& device : run.devices) device.by_category_bytes.clear();
  run.devices[0].peak_bytes = 40;
  const Report report = report_of({run});
  const StackedChart chart = memory_chart({&report, 1});
  EXPECT_EQ(chart.empty_reason, "");
  EXPECT_THAT(chart.parts, ElementsAre("not split"));
  ASSERT_EQ(chart.bars.size(), 2U);
  EXPECT_EQ(chart.bars[0].whole, 40);
  EXPECT_THAT(chart.bars[0].parts, ElementsAre(40));
  for (DeviceRow& device : run.devices) device.peak_reason = "not told";
  const Report silent = report_of({run});
  EXPECT_THAT(memory_chart({&silent, 1}).empty_reason, HasSubstr("no memory was recorded"));
}

TEST(StepsChart, KeepsOutliersHoweverFewTheBins) {
  report::Run run = sample_run("ddp", 2, 1);
  run.step.samples_s.assign(10007, 0.01);
  run.step.samples_s[4242] = 9;
  run.step.samples_s[9999] = 0.001;
  const Report report = report_of({run});
  const StepsChart chart = steps_chart({&report, 1});
  ASSERT_EQ(chart.groups.size(), 1U);
  const StepGroup& group = chart.groups[0];
  EXPECT_EQ(group.count, 10007);
  EXPECT_EQ(group.time_s.max, 9);
  EXPECT_EQ(group.time_s.min, 0.001);
  EXPECT_EQ(group.time_s.median, 0.01);
  ASSERT_EQ(group.bins.size(), 240U);
  EXPECT_EQ(group.bins[101].max_s, 9);
  EXPECT_EQ(group.bins[101].median_s, 0.01);
  EXPECT_EQ(group.bins[239].min_s, 0.001);
}

TEST(StepsChart, StatisticsAreThoseOfTheReport) {
  std::mt19937 random(7);
  for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 20U, 21U, 100U, 1009U}) {
    report::Run run = sample_run("ddp", 2, 1);
    run.step.samples_s.clear();
    for (std::size_t i = 0; i < count; ++i) {
      run.step.samples_s.push_back(static_cast<double>(random() % 500));  // some are equal
    }
    const StepStatistics expected = summarize(run.step.samples_s);
    const Report report = report_of({run});
    const StepsChart chart = steps_chart({&report, 1});
    const StepStatistics& time = chart.groups.at(0).time_s;
    EXPECT_EQ(time.median, expected.median);
    EXPECT_EQ(time.iqr.value, expected.iqr.value);
    EXPECT_EQ(time.p5, expected.p5);
    EXPECT_EQ(time.p95, expected.p95);
    EXPECT_EQ(time.p99, expected.p99);
    EXPECT_EQ(time.min, expected.min);
    EXPECT_EQ(time.max, expected.max);
  }
}

TEST(StepsChart, BinsCoverEachStepOnce) {
  for (const std::size_t steps : {1U, 2U, 7U, 240U, 241U, 1001U}) {
    report::Run run = sample_run("ddp", 2, 1);
    run.step.samples_s.assign(steps, 0.01);
    const Report report = report_of({run});
    const auto bins = steps_chart({&report, 1}).groups[0].bins;
    double next = 0;
    for (const StepBin& bin : bins) {
      EXPECT_EQ(bin.first_step, next);
      EXPECT_GE(bin.last_step, bin.first_step);
      next = bin.last_step + 1;
    }
    EXPECT_EQ(next, static_cast<double>(steps));
    EXPECT_LE(bins.size(), 240U);
  }
}

// The numbers of steps in a file go on from those before a resumed run.
TEST(StepsChart, MarksStepsBeforeWhichACheckpointWasSaved) {
  report::Run run = sample_run("localsgd", 2, 1);
  run.step.samples_s.assign(10, 0.1);
  run.step.count = 20;  // two steps a sample
  run.resumed = ResumedFrom{"c", 100, 3, 10};
  run.checkpoints = {{110, 4096, 0.1, 0.2}, {120, 4096, 0.1, 0.2}};
  const Report report = report_of({run});
  const StepsChart chart = steps_chart({&report, 1});
  EXPECT_THAT(chart.groups.at(0).saves, testing::ElementsAre(5, 10));
  EXPECT_THAT(chart.caption.notes, testing::Contains(HasSubstr("a checkpoint was saved")));
}

TEST(StepsChart, PoolsRepetitionsOfDifferentLength) {
  report::Run shorter = sample_run("ddp", 2, 1), longer = sample_run("ddp", 2, 1);
  shorter.step.samples_s = {1};
  longer.step.samples_s = {3, 5, 7};
  const Report report = report_of({shorter, longer});
  const StepGroup group = steps_chart({&report, 1}).groups.at(0);
  EXPECT_EQ(group.count, 4);
  EXPECT_EQ(group.time_s.median, 4);
  EXPECT_EQ(group.q1_s, 2.5);
  ASSERT_EQ(group.bins.size(), 3U);
  EXPECT_EQ(group.bins[0].min_s, 1);
  EXPECT_EQ(group.bins[0].median_s, 2);
  EXPECT_EQ(group.bins[0].max_s, 3);
  EXPECT_EQ(group.bins[2].median_s, 7);
}

TEST(BucketsChart, TakesMediansOverRepetitions) {
  report::Run first = sample_run("ddp", 2, 1), second = first, third = first;
  first.devices[1].buckets = {{0, 64, 0.010, 0.011, 0.012, 0.020}};
  second.devices[1].buckets = {{0, 64, 0.012, 0.014, 0.015, 0.021}};
  third.devices[1].buckets = {{0, 64, 0.011, 0.013, 0.013, 0.090}};
  const Report report = report_of({first, second, third});
  const BucketsChart chart = buckets_chart({&report, 1});
  ASSERT_EQ(chart.groups.size(), 1U);
  EXPECT_EQ(chart.groups[0].step_s, 0.02);
  ASSERT_EQ(chart.groups[0].bars.size(), 1U);
  const BucketBar& bar = chart.groups[0].bars[0];
  EXPECT_EQ(bar.label, "rank 1 bucket 0");
  EXPECT_EQ(bar.bytes, 64U);
  EXPECT_EQ(bar.ready_s, 0.011);
  EXPECT_EQ(bar.start_s, 0.013);
  EXPECT_EQ(bar.arrived_s, 0.013);
  EXPECT_EQ(bar.end_s, 0.021);
}

TEST(BucketsChart, TellsPushesFromPulls) {
  report::Run run = sample_run("ps", 2, 1);
  run.servers = 2;
  run.devices[0].buckets = {
      {0, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, {2, 1, 0, 0, 0, 0}, {3, 1, 0, 0, 0, 0}};
  const Report report = report_of({run});
  std::vector<std::string> labels;
  const BucketsChart chart = buckets_chart({&report, 1});
  for (const BucketBar& bar : chart.groups.at(0).bars) labels.push_back(bar.label);
  EXPECT_THAT(labels,
              ElementsAre("rank 0 push 0", "rank 0 push 1", "rank 0 pull 0", "rank 0 pull 1"));
}

TEST(BucketsChart, SaysThatNoneWereRecorded) {
  const Report report = report_of({sample_run("single", 1, 1), sample_run("dp", 2, 1)});
  EXPECT_EQ(buckets_chart({&report, 1}).empty_reason,
            "left out: single on 1 (one device sends nothing); dp on 2 (no buckets were recorded)");
}

}  // namespace
}  // namespace ddpbench::report
