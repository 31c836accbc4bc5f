// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of accuracy over training time, from runs with known epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "reports/charts/chart_data.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_run;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Run trained(const std::vector<double>& seconds, double accuracy) {
  report::Run run = sample_run("ddp", 2, 100);
  run.epochs.clear();
  for (const double time_s : seconds) {
    const int epoch = static_cast<int>(run.epochs.size());
    run.epochs.push_back({epoch, time_s, 100, 10, 1.0 / (1 + epoch), 0.5, Figure::of(accuracy)});
    accuracy += 0.01;
  }
  return run;
}

AccuracyChart accuracy_of(std::vector<Run> runs) {
  const Report report = report_of(std::move(runs));
  return accuracy_chart({&report, 1});
}

TEST(AccuracyChart, AddsUpTheTimesOfEpochs) {
  std::vector<report::Run> runs = {trained({10, 8, 8}, 0.96), trained({12, 8}, 0.96)};
  runs[1].repetition = 1;
  runs[0].until_accuracy = runs[1].until_accuracy = AccuracyTarget{0.975, {}};
  const AccuracyChart chart = accuracy_of(runs);
  ASSERT_EQ(chart.series.size(), 1U);
  EXPECT_EQ(chart.series[0].name, "ddp on 2");
  ASSERT_EQ(chart.points.size(), 3U);
  EXPECT_EQ(chart.points[0].trained.median, 11);
  EXPECT_EQ(chart.points[1].trained.min, 18);
  EXPECT_EQ(chart.points[1].trained.max, 20);
  EXPECT_EQ(chart.points[2].trained.count, 1);
  EXPECT_EQ(chart.points[2].epochs, 3);
  EXPECT_DOUBLE_EQ(chart.points[2].test_accuracy.median, 0.98);
  EXPECT_DOUBLE_EQ(chart.points[1].train_loss->median, 0.5);
  EXPECT_THAT(chart.targets, ElementsAre(0.975));
  EXPECT_EQ(chart.shown_from, 0.95);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("median of 1 to 2 repetitions")));
}

TEST(AccuracyChart, MeasuresTrainingInStepsWhereThatIsAskedFor) {
  const report::Run run = trained({10, 8}, 0.96);  // of 100 samples an epoch
  const Report report = report_of({run});
  const AccuracyChart chart = accuracy_chart({&report, 1}, CourseAxis::steps);
  const double steps = std::round(100.0 / static_cast<double>(run.global_batch_size));
  ASSERT_GT(steps, 0);
  ASSERT_EQ(chart.points.size(), 2U);
  EXPECT_EQ(chart.points[0].trained.median, steps);
  EXPECT_EQ(chart.points[1].trained.median, 2 * steps);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("steps are those of training")));
  const AccuracyChart over_samples = accuracy_chart({&report, 1}, CourseAxis::samples);
  EXPECT_EQ(over_samples.points[1].trained.median,
            2 * steps * static_cast<double>(run.global_batch_size));
  EXPECT_THAT(over_samples.caption.notes, Contains(HasSubstr("samples are those of training")));
}

TEST(AccuracyChart, HasTheMediansOfTheLossOverRepetitionsAfterEachStep) {
  std::vector<report::Run> runs(3, trained({10}, 0.96));
  for (int i = 0; i < 3; ++i) {
    runs[i].repetition = i;
    runs[i].progress = {{0, 8, 4.0 + i, 8 * 128, 2.0 + i, 0.3}, {0, 16, 9, 16 * 128, 1, 0.5}};
  }
  runs[2].progress.pop_back();
  runs[1].progress[1].train_loss = std::numeric_limits<double>::quiet_NaN();
  const AccuracyChart chart = accuracy_of(runs);
  ASSERT_EQ(chart.losses.size(), 2U);
  EXPECT_EQ(chart.losses[0].step, 8);
  EXPECT_EQ(chart.losses[0].trained, 5);
  EXPECT_EQ(chart.losses[0].train_loss, 3);
  EXPECT_EQ(chart.losses[1].trained, 9);
  EXPECT_EQ(chart.losses[1].train_loss, 1);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("line of the loss is its mean")));
  const Report report = report_of({runs[0]});
  const AccuracyChart over_steps = accuracy_chart({&report, 1}, CourseAxis::steps);
  EXPECT_EQ(over_steps.losses.at(1).trained, 16);
}

TEST(AccuracyChart, BeginsARunWhereItsTrainingWasResumed) {
  report::Run run = trained({10, 8}, 0.96);
  run.global_batch_size = 10;
  run.progress = {{0, 4, 4.0, 40, 2.0, 0.3}};
  run.resumed = ResumedFrom{"c", 36, 3, 6};
  const Report report = report_of({run});
  const AccuracyChart chart = accuracy_chart({&report, 1}, CourseAxis::steps);
  ASSERT_EQ(chart.points.size(), 2U);
  EXPECT_EQ(chart.points[0].trained.median, 46);
  EXPECT_EQ(chart.points[1].trained.median, 56);
  EXPECT_EQ(chart.points[1].epochs, 5);
  EXPECT_EQ(chart.losses.at(0).step, 40);
  EXPECT_EQ(chart.losses[0].trained, 40);
  EXPECT_EQ(accuracy_chart({&report, 1}, CourseAxis::samples).losses.at(0).trained, 400);
  EXPECT_EQ(accuracy_of({run}).points[1].trained.median, 18);  // s since then
}

TEST(AccuracyChart, BeginsAtZeroWhereANetworkHasLearnedLittle) {
  EXPECT_EQ(accuracy_of({trained({1}, 0.1)}).shown_from, 0);
  EXPECT_EQ(accuracy_of({trained({1}, 0.995)}).shown_from, 0.99);
}

TEST(AccuracyChart, IsOfTheMeanIntersectionOverUnionWhereAllRunsTellIt) {
  report::Run run = trained({10, 8}, 0.9);
  run.until_accuracy = AccuracyTarget{0.62, {}, "miou"};
  EXPECT_THAT(accuracy_of({run}).targets, testing::IsEmpty());
  run.epochs[0].test_miou = 0.5;
  EXPECT_FALSE(accuracy_of({run}).of_miou);
  run.epochs[1].test_miou = 0.625;
  const AccuracyChart chart = accuracy_of({run});
  EXPECT_EQ(chart.points.at(1).test_accuracy.median, 0.625);
  EXPECT_THAT(chart.targets, ElementsAre(0.62));
  EXPECT_EQ(chart.shown_from, 0.5);
}

TEST(AccuracyChart, DrawsSettingsAndDevicesAsLinesOfOneColour) {
  std::vector<report::Run> runs = {trained({1}, 0.9), trained({1}, 0.9), trained({1}, 0.9)};
  runs[1].world_size = 4;
  for (report::Run& run : runs) run.strategy_options = {{"overlap", "on"}};
  runs[2].strategy_options = {{"overlap", "off"}};
  const AccuracyChart chart = accuracy_of(runs);
  ASSERT_EQ(chart.series.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(chart.series[i].style, 2U);
    EXPECT_EQ(chart.series[i].variant, i);
    EXPECT_EQ(chart.points[i].series, i);
  }
  EXPECT_EQ(chart.series[2].name, "ddp on 4, overlap on");
}

TEST(AccuracyChart, LeavesOutRunsThatWereNotEvaluated) {
  report::Run blind = trained({1, 1}, 0.9);
  blind.epochs[1].test_accuracy = Figure::missing("no test samples");
  EXPECT_EQ(accuracy_of({blind}).empty_reason, "left out: ddp on 2 (no test samples)");
  report::Run lost = trained({1}, 0.9);
  lost.epochs[0].train_loss = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(accuracy_of({lost}).points[0].train_loss);
}

}  // namespace
}  // namespace ddpbench::report
