// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of accuracy over training time, from runs with known epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(chart.points[0].train_s.median, 11);
  EXPECT_EQ(chart.points[1].train_s.min, 18);
  EXPECT_EQ(chart.points[1].train_s.max, 20);
  EXPECT_EQ(chart.points[2].train_s.count, 1);
  EXPECT_EQ(chart.points[2].epochs, 3);
  EXPECT_DOUBLE_EQ(chart.points[2].test_accuracy.median, 0.98);
  EXPECT_DOUBLE_EQ(chart.points[1].train_loss->median, 0.5);
  EXPECT_THAT(chart.targets, ElementsAre(0.975));
  EXPECT_EQ(chart.shown_from, 0.95);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("different numbers of epochs")));
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("median of 1 to 2 repetitions")));
}

TEST(AccuracyChart, BeginsAtZeroWhereANetworkHasLearnedLittle) {
  EXPECT_EQ(accuracy_of({trained({1}, 0.1)}).shown_from, 0);
  EXPECT_EQ(accuracy_of({trained({1}, 0.995)}).shown_from, 0.99);
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
  EXPECT_EQ(chart.series[2].name, "ddp, overlap on on 4");
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
