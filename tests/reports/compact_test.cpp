// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table below the first answer: its columns at each width, its marks, and what it does not show
// where a run or its baseline was disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/metrics/repetitions.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/text_width.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_run;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Report quick_report() {
  std::vector<report::Run> runs = {sample_run("single", 1, 7081), sample_run("dp", 1, 7137),
                                   sample_run("ddp", 1, 7474),    sample_run("dp", 2, 10374),
                                   sample_run("ddp", 2, 10632),   sample_run("ps", 2, 3438)};
  runs[5].servers = 1;
  runs[5].oversubscribed = true;
  for (Run& run : runs) run.verification.steps = 3;
  Report report = report_of(std::move(runs));
  fill_scaling(report);
  return report;
}

std::string text_of(const Report& report, int width = 100) {
  return compact_text(CondensedRows(all_runs(report)).rows(), width);
}

void disturb(Run& run) { run.conditions.emplace().other_load_ratio = Figure::of(0.47); }

TEST(CompactTable, HasWhatIsNeededToChoose) {
  EXPECT_EQ(text_of(quick_report()),
            R"(strategy  devices  step ms  samples/s  speed-up  eff. %  comm ms  exposed  MiB/device
ddp             1    20.00       7474         =       =        -        -        40.0  =
dp              1    20.00       7137         =       =        -        -        40.0  =
single          1    20.00       7081      1.00   100.0        -        -        40.0  =
ddp             2    20.00      10632      1.50    75.1     1.50     0.30        40.0
dp              2    20.00      10374      1.47    73.3     1.50     0.30        40.0
ps            2+1    20.00       3438         -       -     1.50     0.30        40.0  (1)

= the same work on one device: these 3 show how far runs differ by chance
(1) more compute threads than cores: not ranked
simple_cnn on mnist (files), cpu (Imaginary 9000), 1 thread a device, fp32, weak scaling
All 6 agree with one device (3 steps). One run each: --repetitions=7 gives intervals (about 8 min).
)");
}

TEST(CompactTable, MarksApproximateRunsBesideTheirSpeedUp) {
  Report report = quick_report();
  report::Run& fast = report.runs[3];
  fast.strategy = "localsgd";
  fast.samples_per_s = Figure::of(13290);
  fast.verification.status = "not_applicable";
  fast.verification.divergence = 0.04;
  fast.progress = {{0, 100, 2.5, 12800, 1.92, 0.6}};
  report.runs[4].progress = {{0, 100, 2.5, 12800, 1.83, 0.6}};
  fill_scaling(report);
  const std::string text = text_of(report);
  EXPECT_THAT(text, ContainsRegex("\nlocalsgd +2 +20.00 +13290 +1.88 .* 40.0  \\(2\\)\n"));
  EXPECT_LT(text.find("\nps "), text.find("\nlocalsgd "));  // behind the slowest exact one
  EXPECT_THAT(
      text,
      HasSubstr("\n(2) approximate: 25 % faster than the fastest exact run, loss 1.92 after the "
                "same samples (exact\n    1.83), 4.0 % from the reference\n"));
  disturb(fast);
  EXPECT_THAT(text_of(report),
              HasSubstr("25 % faster than the fastest exact run (disturbed), loss 1.92"));
}

TEST(CompactTable, SaysThatTheLoaderHoldsStepsUp) {
  Report report = quick_report();
  EXPECT_THAT(text_of(report), Not(HasSubstr("loader")));
  report.runs[4].phases["data_wait_s"] = Figure::of(0.0117);  // of 20 ms
  const std::string text = text_of(report);
  EXPECT_THAT(text, ContainsRegex("\nddp +2 .* 40.0  \\(1\\)\n"));
  EXPECT_THAT(text, HasSubstr("(1) 58 % of a step is waiting for the loader: try more "
                              "--loader-workers\n"));
  report.generator.name = "ddpbench-import";
  EXPECT_THAT(text_of(report), HasSubstr("(1) 58 % of a step is waiting for the loader  (2) more"));
}

TEST(CompactTable, DropsColumnsAndNeverFolds) {
  for (const int width : {0, 40, 60, 80, 100, 150}) {
    const std::string text = text_of(quick_report(), width);
    EXPECT_EQ(text.find("strategy", 1), std::string::npos) << text;
    if (width < 60) continue;
    EXPECT_LE(test::longest_line(text), static_cast<std::size_t>(std::min(width, 100)));
  }
  EXPECT_THAT(text_of(quick_report(), 80), Not(HasSubstr("eff. %")));
  EXPECT_THAT(text_of(quick_report(), 80), HasSubstr("MiB/device"));
  EXPECT_THAT(text_of(quick_report(), 60), Not(HasSubstr("exposed")));
  EXPECT_THAT(text_of(quick_report(), 60), HasSubstr("speed-up"));
}

TEST(CompactTable, ShowsNoSpeedUpOfDisturbedRuns) {
  Report report = quick_report();
  disturb(report.runs[3]);  // dp on 2
  std::string text = text_of(report);
  EXPECT_THAT(text, ContainsRegex("\ndp +2 +20.00 +10374 +- +- .*\\[a\\]\n"));
  EXPECT_THAT(text, ContainsRegex("\nddp +2 +20.00 +10632 +1.50 "));
  EXPECT_THAT(text, HasSubstr("\n[a] other programs used 47 % of the CPU (1 of 6 runs)\n"));
}

TEST(CompactTable, InheritsTheMarkOfTheBaseline) {
  Report report = quick_report();
  disturb(report.runs[0]);
  const std::string text = text_of(report);
  EXPECT_THAT(text, ContainsRegex("\nddp +2 +20.00 +10632 +- +- .*\\[a\\]\n"));
  EXPECT_THAT(text, ContainsRegex("\nps +2\\+1 .* 40.0  \\(1\\)\n"));  // it is divided by nothing
}

// What one row shows of the baseline holds for all that are divided by it.
TEST(CompactTable, ShowsNoSpeedUpAgainstABaselineThatAnotherRowShowsToBeDisturbed) {
  Report report = quick_report();
  report.runs[4].scaling = Scaling{"single", 3.4, 1.7};  // ddp on 2
  const std::string text = text_of(report);
  EXPECT_THAT(text, ContainsRegex("\ndp +2 +20.00 +10374 +- +- .*\\([0-9]\\)\n"));
  EXPECT_THAT(text, HasSubstr("baseline disturbed: 2 devices cannot be 3.4 times as fast as one"));
}

TEST(CompactTable, ShortensLongNames) {
  std::vector<report::Run> runs(2, sample_run("ddp", 2, 5000));
  runs[0].label = std::string(70, 'a') + "first";
  runs[1].label = std::string(70, 'a') + "second";
  const Report report = report_of(runs);
  for (const int width : {60, 80, 100}) {
    EXPECT_LE(test::longest_line(text_of(report, width)), static_cast<std::size_t>(width));
    EXPECT_THAT(text_of(report, width), HasSubstr("second)  "));
  }
}

TEST(CompactTable, CallsABaselineDisturbedThatSeveralDevicesBeatByMoreThanTheirNumber) {
  Report report = report_of({sample_run("single", 1, 3000), sample_run("ddp", 2, 7644)});
  fill_scaling(report);
  EXPECT_THAT(text_of(report),
              HasSubstr("(1) baseline disturbed: 2 devices cannot be 2.5 times as fast as one\n"));
  EXPECT_THAT(text_of(report), Not(HasSubstr("2.55")));
}

// Two machines: equal work of one says nothing about the noise of the other.
TEST(CompactTable, MarksEqualWorkOfEachReport) {
  const Report a = quick_report(), b = quick_report();
  std::vector<RunRow> rows;
  for (const Report* report : {&a, &b})
    for (const report::Run& run : report->runs)
      rows.push_back({report, &run, report == &a ? "a.json" : "b.json"});
  std::vector<std::string> notes;
  const TextTable table = compact_table(rows, notes);
  const std::vector<std::string>& marks = table.columns.back().cells;
  EXPECT_EQ(std::ranges::count(marks, "="), 6);
  EXPECT_THAT(notes.front(), HasSubstr("these 6 show how far"));
}

TEST(CompactTable, SaysWhatFailedInPlaceOfFigures) {
  const std::string text = text_of(test::sample_report());
  EXPECT_THAT(text, ContainsRegex("\nddp +4 +- .* failed \\([0-9]\\)\n"));
  EXPECT_THAT(text, HasSubstr("4 agree with one device (3 steps)"));
  EXPECT_THAT(text, HasSubstr(") failed: rank 2, step 5, signal: killed by SIGKILL  (4)"));
  EXPECT_EQ(compact_text({}, 80), "no runs\n");
}

TEST(CompactTable, ShowsIntervalsOfRepetitions) {
  std::vector<report::Run> runs;
  for (int i = 0; i < 7; ++i) {
    runs.push_back(sample_run("single", 1, 7000 + 10 * i));
    runs.push_back(sample_run("ddp", 2, 10500 + 20 * i));
    runs[runs.size() - 1].repetition = runs[runs.size() - 2].repetition = i;
  }
  Report report = report_of(std::move(runs));
  fill_scaling(report);
  EXPECT_THAT(text_of(report), ContainsRegex("\nddp +2 .* 1.50  1.50..1.51 "));
  const std::string note = "(a..b): smallest and largest; from 6 repetitions on a 95 %";
  EXPECT_THAT(text_of(report), HasSubstr(note));
  // Without the column there is nothing to explain.
  EXPECT_THAT(text_of(report, 50), AllOf(Not(HasSubstr("(a..b)")), Not(HasSubstr("One run each"))));
}

// Its column would be one without a heading and without cells, which the page would sort by.
TEST(CompactTable, HasMarksWhereARowHasSome) {
  std::vector<std::string> notes;
  const Report plain = report_of({sample_run("ddp", 2, 5000), sample_run("ddp", 4, 9000)});
  EXPECT_EQ(compact_table(all_runs(plain), notes).columns.back().bottom, "MiB/device");
  EXPECT_EQ(compact_table(all_runs(quick_report()), notes).columns.back().bottom, "");
}

TEST(CompactTable, NamesWhatTellsRowsOfOneStrategyApart) {
  std::vector<report::Run> runs(2, sample_run("ddp", 2, 5000));
  runs[0].strategy_options["overlap"] = "on";
  runs[1].strategy_options["overlap"] = "off";
  EXPECT_THAT(text_of(report_of(runs)), HasSubstr("\nddp (overlap off)  "));
  runs[0].label = "overlapped";
  runs[1].label = "flat";
  EXPECT_THAT(text_of(report_of(runs)),
              AllOf(HasSubstr("\nddp (overlapped)  "), HasSubstr("\nddp (flat)  ")));
  runs[1].label = "";
  EXPECT_THAT(text_of(report_of(runs)),
              AllOf(HasSubstr("\nddp (overlapped)  "), HasSubstr("\nddp (overlap off)  ")));
  runs[1].label = "overlapped";  // of two settings: alone it tells neither
  EXPECT_THAT(text_of(report_of(runs)), AllOf(HasSubstr("\nddp (overlapped, overlap on)  "),
                                              HasSubstr("\nddp (overlapped, overlap off)  ")));
}

}  // namespace
}  // namespace ddpbench::report
