// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Repetitions as one row: the medians, how far they reach, and what of this each output shows.
#include "reports/metrics/repetitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "reports/charts/chart_data.h"
#include "reports/exports/run_formats.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Repetitions of `strategy` whose steps take these times, in ms.
std::vector<Run> repetitions(const char* strategy, const std::vector<double>& steps_ms) {
  std::vector<Run> runs;
  for (const double step_ms : steps_ms) {
    const int devices = std::string_view(strategy) == "single" ? 1 : 2;
    Run run = test::sample_run(strategy, devices, 64e3 * devices / step_ms);
    run.repetition = static_cast<int>(runs.size());
    run.step.time_s->median = step_ms / 1e3;
    runs.push_back(std::move(run));
  }
  return runs;
}

Report report_with(std::vector<std::vector<Run>> settings) {
  std::vector<Run> runs;
  for (auto& setting : settings) {
    for (Run& run : setting) runs.push_back(std::move(run));
  }
  Report report = test::report_of(std::move(runs));
  fill_scaling(report);
  return report;
}

// Three repetitions that took so long to 98 %; 0: they did not reach it.
Report accurate(const std::vector<double>& seconds) {
  std::vector<Run> runs = repetitions("ddp", std::vector<double>(seconds.size(), 20));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].until_accuracy = AccuracyTarget{
        0.98, seconds[i] > 0 ? Figure::of(seconds[i]) : Figure::missing("98 % was not reached")};
  }
  return report_with({std::move(runs)});
}

// What the column shows of the row.
double value(const RunRow& row, const char* column) {
  return std::get<double>(find_column(column)->fields.front().value(row).value);
}

// The mean of two rates is not the rate of the mean of their times.
TEST(CondensedRows, HaveRatesAndSpeedupsThatFitTheMedianStepOfAnEvenNumber) {
  const Report report =
      report_with({repetitions("single", {10, 22}), repetitions("ddp", {20, 30, 22, 24})});
  const CondensedRows condensed(all_runs(report));
  const RunRow &single = condensed.rows()[0], &ddp = condensed.rows()[1];
  EXPECT_DOUBLE_EQ(value(single, "step"), 0.016);
  EXPECT_DOUBLE_EQ(value(single, "rate"), 64 / 0.016);
  EXPECT_DOUBLE_EQ(value(ddp, "step"), 0.023);
  EXPECT_DOUBLE_EQ(value(ddp, "rate"), 128 / 0.023);
  EXPECT_DOUBLE_EQ(value(ddp, "speedup"), value(ddp, "rate") / value(single, "rate"));
  EXPECT_DOUBLE_EQ(value(ddp, "efficiency"), value(ddp, "speedup") / 2);
  const ScalingChart chart = scaling_chart({&report, 1});
  EXPECT_DOUBLE_EQ(chart.points.at(1).samples_per_s.median, value(ddp, "rate"));
  EXPECT_DOUBLE_EQ(chart.points.at(1).efficiency->median, value(ddp, "efficiency"));
}

TEST(TimesToAccuracy, AreCondensedToTheirMedian) {
  EXPECT_THAT(render_table(accurate({30, 50, 40}), 0),
              AllOf(HasSubstr("to acc. s"), HasSubstr(" 40.00 ")));
}

TEST(TimesToAccuracy, AreMissingWhereARepetitionMissedIt) {
  EXPECT_THAT(
      render_table(accurate({30, 0, 40}), 0),
      AllOf(HasSubstr("1 of 3 repetitions did not reach 98 %"), Not(HasSubstr("to acc. s"))));
  EXPECT_THAT(render_table(accurate({0, 0}), 0), HasSubstr("98 % was not reached"));
}

TEST(MedianSpread, IsTheLeastAndTheMostOfFewerThanSix) {
  const MedianSpread few = median_spread({3, 1, 2});
  EXPECT_FALSE(few.is_interval);
  EXPECT_EQ(few.low.value, 1);
  EXPECT_EQ(few.high.value, 3);
  EXPECT_FALSE(median_spread({1, 2, 3, 4, 5}).is_interval);
  EXPECT_TRUE(median_spread({1, 2, 3, 4, 5, 6}).is_interval);
  EXPECT_THAT(median_spread({1}).low.reason, HasSubstr("noise is unknown"));
  EXPECT_FALSE(median_spread({}).high.value);
}

TEST(MedianSpread, OfAQuotientNeedsSixOnEachSide) {
  const std::vector<double> five = {10, 11, 12, 13, 14}, six = {10, 11, 12, 13, 14, 15};
  EXPECT_FALSE(quotient_spread(six, five).is_interval);
  const MedianSpread spread = quotient_spread(six, {4, 4, 4, 5, 5, 5});
  EXPECT_TRUE(spread.is_interval);
  EXPECT_GT(spread.low.value, 10.0 / 5);
  EXPECT_LT(spread.high.value, 15.0 / 4);
  EXPECT_FALSE(quotient_spread({1}, {2}).low.value);
  EXPECT_EQ(quotient_spread({4}, {1, 2}).low.value, 2);
}

TEST(CondensedRows, AreOneForASettingWithItsMedians) {
  Report report =
      report_with({repetitions("single", {20, 22, 21}), repetitions("ddp", {24, 20, 22})});
  report.runs[1].devices[0].peak_bytes += 1000;
  report.runs[2].epochs[0].time_s = 30;
  const CondensedRows condensed(all_runs(report));
  ASSERT_EQ(condensed.rows().size(), 2u);
  const RunRow& ddp = condensed.rows()[1];
  ASSERT_NE(ddp.repeated, nullptr);
  EXPECT_EQ(ddp.repeated->timed.size(), 3u);
  EXPECT_EQ(ddp.run->strategy, "ddp");
  EXPECT_DOUBLE_EQ(value(ddp, "step"), 0.022);
  EXPECT_DOUBLE_EQ(value(ddp, "rate"), 128e3 / 22);
  EXPECT_DOUBLE_EQ(value(ddp, "speedup"), 2 * 21.0 / 22);
  EXPECT_DOUBLE_EQ(*ddp.repeated->step_s.low.value, 0.020);
  EXPECT_DOUBLE_EQ(*ddp.repeated->step_s.high.value, 0.024);
  // The slowest repetition against the fastest of single, and the other way round.
  EXPECT_DOUBLE_EQ(*ddp.repeated->speedup.low.value, 2 * 20.0 / 24);
  EXPECT_DOUBLE_EQ(*ddp.repeated->speedup.high.value, 2 * 22.0 / 20);
  const RunRow& single = condensed.rows()[0];
  EXPECT_EQ(std::get<std::int64_t>(find_column("memory")->fields.front().value(single).value),
            static_cast<std::int64_t>(report.runs[0].devices[0].peak_bytes) + 1000);
  EXPECT_EQ(value(single, "epoch"), 10);
  EXPECT_FALSE(single.repeated->speedup.low.value);
}

TEST(CondensedRows, KeepRunsThatWereNotRepeated) {
  const Report report = test::sample_report();
  const CondensedRows condensed(all_runs(report));
  ASSERT_EQ(condensed.rows().size(), report.runs.size());
  for (std::size_t i = 0; i < report.runs.size(); ++i) {
    EXPECT_EQ(condensed.rows()[i].run, &report.runs[i]);
    EXPECT_EQ(condensed.rows()[i].repeated, nullptr);
  }
}

TEST(CondensedRows, AreOfOneReportEach) {
  const Report a = report_with({repetitions("ddp", {20, 21})}),
               b = report_with({repetitions("ddp", {30})});
  const std::vector<ReportFile> files = {{"a.json", a}, {"b.json", b}};
  const CondensedRows condensed(all_runs(files));
  ASSERT_EQ(condensed.rows().size(), 2u);
  EXPECT_EQ(condensed.rows()[1].repeated, nullptr);
}

TEST(CondensedRows, SayWhatDidNotEndWell) {
  Report report = report_with({repetitions("ddp", {20, 21, 22}), repetitions("dp", {20, 21})});
  for (const std::size_t index : {1, 3, 4}) {
    report.runs[index].status = Status::failed;
    report.runs[index].step = {};
    report.runs[index].error = ErrorInfo{"signal", 1, "", 9, {}, "", "", "killed by SIGKILL"};
  }
  report.runs[2].verification.status = "failed";
  report.runs[2].verification.reason = "conv2.weight is off";
  const CondensedRows condensed(all_runs(report));
  EXPECT_EQ(condensed.rows()[0].repeated->timed.size(), 2u);
  EXPECT_DOUBLE_EQ(value(condensed.rows()[0], "step"), 0.021);
  EXPECT_EQ(verification_of(condensed.rows()[0]).status, "failed");
  const std::string table = render_table(report, 0);
  EXPECT_THAT(table, HasSubstr("1 of 3 repetitions have no figures; the first: failed: killed by"));
  EXPECT_THAT(table, HasSubstr("in 1 of 3 repetitions: conv2.weight is off"));
  EXPECT_THAT(table, ContainsRegex("\nddp +2 +2 of 3 .* NO +\\(1\\) \\(2\\)\n"));
  EXPECT_THAT(table, ContainsRegex("\ndp +2 +0 of 2 .* failed \\("));
}

TEST(CondensedRows, KnowNoMedianOfLossesThatDiverged) {
  Report report = report_with({repetitions("ddp", {20, 21, 22})});
  report.runs[1].epochs[0].train_loss = std::numeric_limits<double>::infinity();
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("train loss")));
}

TEST(CondensedTable, ShowsMedianAndIntervalOfStepAndSpeedUp) {
  const Report few =
      report_with({repetitions("single", {20, 22, 21}), repetitions("ddp", {24, 20, 22})});
  const std::string table = render_table(few, 0);
  EXPECT_THAT(table, ContainsRegex("ddp +2 +3 +64/128 +22.00 +1.00 +20.00..24.00 "));
  EXPECT_THAT(table, ContainsRegex(" 1.91 +1.67..2.20 +95.5 "));
  EXPECT_THAT(table, ContainsRegex("single +1 +3 .* 1.00 +100.0 "));
  EXPECT_THAT(table, HasSubstr("(a..b): smallest and largest; from 6 repetitions on a 95 %"));
}

TEST(CondensedTable, SaysThatOneRepetitionShowsNoNoise) {
  const std::string words = "One run each";
  EXPECT_THAT(render_table(test::sample_report(), 0), HasSubstr(words));
  EXPECT_THAT(render_table(report_with({repetitions("ddp", {20, 21})}), 0), Not(HasSubstr(words)));
  const Report skipped = test::report_of({test::sample_report().runs[5]});
  EXPECT_THAT(render_table(skipped, 0), Not(HasSubstr(words)));
}

TEST(CondensedExports, HaveTheEndsOfTheIntervals) {
  const Report report =
      report_with({repetitions("single", {20, 21}), repetitions("ddp", {24, 20, 22})});
  const CondensedRows condensed(all_runs(report));
  Columns columns;
  for (const char* name : {"strategy", "repetitions", "step-interval", "repetition"}) {
    columns.push_back(find_column(name));
    ASSERT_NE(columns.back(), nullptr) << name;
  }
  const auto written = [](const char* format, std::span<const RunRow> rows, const Columns& shown) {
    return std::ranges::find(run_formats(), format, &RunFormat::name)->write(rows, shown, 0);
  };
  const std::string csv = written("csv", condensed.rows(), columns);
  EXPECT_THAT(csv, HasSubstr("strategy,repetitions,timed_repetitions,step_time_low_s,"
                             "step_time_high_s,repetition,missing\n"));
  EXPECT_THAT(csv, HasSubstr("\nddp,3,3,0.02,0.024,,repetition: the row stands for"));
  EXPECT_THAT(written("csv", all_runs(report), columns), HasSubstr("\nddp,1,1,,,2,"));
  EXPECT_THAT(written("markdown", condensed.rows(), usual_columns(condensed.rows())),
              AllOf(HasSubstr("| 22.00 | 1.00 | 20.00..24.00 |"), HasSubstr("(a..b): smallest")));
}

}  // namespace
}  // namespace ddpbench::report
