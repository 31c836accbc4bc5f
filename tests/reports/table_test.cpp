// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The summary table as a terminal shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>

#include "base/text.h"
#include "reports/data/report.h"
#include "reports/metrics/metrics.h"
#include "reports/table/table.h"
#include "reports/table/table_layout.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/text_width.h"

namespace ddpbench::report {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Report one_run(const report::Run& run) {
  Report report;
  report.runs = {run};
  return report;
}

TEST(SummaryTable, ShowsARowARunAndTheColumnsOfWhichARowHasAValue) {
  const std::string table = render_table(test::sample_report(), 0);
  EXPECT_THAT(
      table, StartsWith("strategy  devices  batch each/all  step ms   IQR  samples/s  speed-up  "
                        "eff. %  epoch s  skipped updates  comm ms  exposed  MiB/device  "
                        "MiB others  GPU use %  GPU W  GPU MHz  train loss  test acc. %  verified\n"
                        "single          1           64/64    20.00  1.00       3200      1.00   "
                        "100.0    10.00                -        -        -        40.0           "
                        "-          -      -        -      0.2345        98.12      ref.\n"));
  EXPECT_THAT(table,
              ContainsRegex("\nddp +2 +64/128 +20.00 +1.00 +6100 +1.91 +95.3 +10.00 +- +1.50 "
                            "+0.30 +40.0 +30.0 +97.0 +690 +1755 +0.2345 +98.12 +yes +"
                            "\\(1\\)\n"));
  EXPECT_THAT(table, ContainsRegex("\nps +4\\+1 +64/256 +20.00 +1.00 +6000 +- +- .* \\(2\\)\n"));
  EXPECT_THAT(table, ContainsRegex("\nddp +4 +64/256 +- +- .* +failed \\(3\\)\n"));
  EXPECT_THAT(table, ContainsRegex("\ndp +8 +- +- .* +skipped \\(4\\)\n"));
  for (const char* note :
       {"(1) injected: slow:rank=1,phase=backward,percent=25",
        "(2) more compute threads than cores: not ranked",
        "(3) failed: rank 2, step 5, signal: killed by SIGKILL",
        "(4) skipped: no CUDA device is here", "\nsimple_cnn on mnist (files), cpu (",
        "\nAll 4 agree with one device (3 steps). One run each: --repetitions=7 gives"}) {
    EXPECT_THAT(table, HasSubstr(note));
  }
}

TEST(SummaryTable, ShowsHowBusyEachDeviceIsWhereThatIsChosen) {
  Report report = test::report_of({test::sample_run("dp", 2, 5200)});
  report.runs[0].devices[0].phases["backward_s"] = Figure::of(0.0092);
  report.runs[0].devices[1].phases["backward_s"] = Figure::of(0.0004);
  const Columns columns = {find_column("busy"), find_column("flops"), find_column("peak-share")};
  EXPECT_THAT(table_text(all_runs(report), columns, 0),
              ::testing::AllOf(HasSubstr("86/42"), HasSubstr("182.0"), HasSubstr("45.5")));
}

TEST(SummaryTable, ShowsWhatCrossesTheLinksWhereThatIsChosen) {
  Report report = test::report_of({test::sample_run("dp", 2, 5200)});
  const Columns columns = {find_column("messages"), find_column("wire"),
                           find_column("busiest-messages"), find_column("busiest-wire")};
  EXPECT_THAT(table_text(all_runs(report), columns, 0), ContainsRegex("12 +3\\.40 +6 +1\\.70\n"));
  report.runs[0].traffic = {};
  EXPECT_THAT(table_text(all_runs(report), columns, 0), ContainsRegex("- +- +- +-\n"));
}

TEST(SummaryTable, ShowsStalenessWhereServersApplyPushesOneByOne) {
  Report report = test::report_of({test::sample_run("ps", 2, 5200)});
  const auto text = [&] {
    return table_text(all_runs(report), usual_columns(all_runs(report)), 0);
  };
  EXPECT_THAT(text(), AllOf(Not(HasSubstr("updates")), Not(HasSubstr("stale"))));
  report.runs[0].pushes = PushSection{.updates_per_s = 137, .staleness_p50 = 5};
  EXPECT_THAT(text(), AllOf(HasSubstr("updates a s"), ContainsRegex(" 137 +5 ")));
}

TEST(SummaryTable, TellsPassesWhereRunsDifferInThem) {
  Report report = test::report_of({test::sample_run("ddp", 2, 1), test::sample_run("ddp", 2, 1)});
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("pass")));
  report.runs[1].accumulation_steps = 4;
  EXPECT_THAT(render_table(report, 0), HasSubstr("\nddp (4 passes) "));
}

TEST(SummaryTable, ShowsWhatScalingTheLossLeftOut) {
  Report report = test::report_of({test::sample_run("ddp", 2, 5200)});
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("skipped")));
  report.runs[0].loss_scaling = LossScaling{16384, 27};
  EXPECT_THAT(render_table(report, 0), AllOf(HasSubstr("skipped updates"), HasSubstr(" 27 ")));
}

TEST(SummaryTable, ShowsTheTimeToAnAccuracyWhereOneWasAskedFor) {
  Report report = test::report_of({test::sample_run("single", 1, 3200)});
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("to acc.")));
  report.runs[0].until_accuracy = AccuracyTarget{0.98, Figure::of(123.456)};
  EXPECT_THAT(render_table(report, 0),
              ::testing::AllOf(HasSubstr("epoch s  to acc. s"), HasSubstr("10.00     123.46"),
                               HasSubstr("to acc.: training time to the accuracy asked for")));
  report.runs[0].until_accuracy->metric = "miou";
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("mIoU %")));
  report.runs[0].epochs.back().test_miou = 0.4321;
  EXPECT_THAT(render_table(report, 0), ::testing::AllOf(HasSubstr("mIoU %"), HasSubstr("43.21")));
  report.runs[0].until_accuracy->train_s = Figure::missing("98 % was not reached in 1 epoch");
  EXPECT_THAT(render_table(report, 0), HasSubstr(") 98 % was not reached in 1 epoch"));
}

TEST(SummaryTable, SaysWhenThereAreNoRuns) { EXPECT_EQ(render_table(Report{}, 80), "no runs\n"); }

TEST(SummaryTable, SaysThatAReduceScatterIsAnAllReduce) {
  Report report = test::report_of({test::sample_run("zero1", 2, 5200)});
  report.runs[0].backend = "gloo";
  const std::string words = ") gloo has no reduce-scatter: each is an all-reduce, of twice the";
  for (const bool composed : {false, true}) {
    if (composed) report.runs[0].strategy_options["reduce_scatter"] = "all_reduce";
    for (const std::string& text : {render_table(report, 0), compact_text(all_runs(report), 0)}) {
      EXPECT_EQ(text.find(words) != std::string::npos, composed) << text;
    }
  }
}

TEST(SummaryTable, NumbersRepetitionsWhereEachHasARow) {
  Report report = one_run(test::sample_run("single", 1, 100));
  const auto table = [&report] {
    return table_text(all_runs(report), usual_columns(all_runs(report)), 0);
  };
  EXPECT_THAT(table(), Not(HasSubstr("rep.")));
  report.runs.push_back(report.runs[0]);
  report.runs[1].repetition = 1;
  EXPECT_THAT(table(), HasSubstr("rep."));
  EXPECT_THAT(table(), ContainsRegex("single +1 +1 "));
}

TEST(SummaryTable, ShowsNoSpreadOfOneStep) {
  report::Run run = test::sample_run("single", 1, 100);
  run.step.count = 1;
  run.step.samples_s = {0.02};
  run.step.time_s = summarize(run.step.samples_s);
  EXPECT_THAT(render_table(one_run(run), 0), Not(HasSubstr("IQR")));
}

TEST(SummaryTable, ShowsTheTimeOfAnEpoch) {
  report::Run run = test::sample_run("single", 1, 100);
  run.epochs = {{0, 12.5, 60032, 0, 0.2, 0.9, Figure::of(0.9)},
                {1, 11.5, 60032, 0, 0.2, 0.9, Figure::of(0.9)}};
  EXPECT_THAT(render_table(one_run(run), 0), AllOf(HasSubstr(" epoch s "), HasSubstr(" 12.00 ")));
}

TEST(SummaryTable, TellsSettingsOfOneStrategyApart) {
  Report report = test::sample_report();
  report.runs = {test::sample_run("ddp", 2, 100), test::sample_run("ddp", 2, 110)};
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("bucket cap")));
  report.runs[0].strategy_options["bucket_cap_mb"] = "1";
  report.runs[1].strategy_options["bucket_cap_mb"] = "25";
  EXPECT_THAT(render_table(report, 0), AllOf(HasSubstr("\nddp (bucket cap 1 MiB) "),
                                             HasSubstr("\nddp (bucket cap 25 MiB) ")));
}

// Runs with the usual choice of some options do not name them.
TEST(SummaryTable, TellsRunsWithAnOptionFromThoseWithoutIt) {
  Report report = test::sample_report();
  report.runs = {test::sample_run("ddp", 2, 100), test::sample_run("ddp", 2, 110)};
  for (report::Run& run : report.runs) run.strategy_options["overlap"] = "on";
  report.runs[1].strategy_options["devices_per_process"] = "2";
  EXPECT_THAT(render_table(report, 0), HasSubstr("\nddp (2 devices a process) "));
  report.runs[1].world_size = 4;  // the devices tell them apart
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("a process")));
}

// dp and single usually have no option at all.
TEST(SummaryTable, TellsRunsWithoutAnyOptionFromThoseWithOne) {
  Report report = test::sample_report();
  report.runs = {test::sample_run("dp", 2, 100), test::sample_run("dp", 2, 110)};
  for (report::Run& run : report.runs) run.strategy_options.clear();
  report.runs[1].strategy_options["emulated_gil_us"] = "500";
  EXPECT_THAT(render_table(report, 0), HasSubstr("\ndp (emulated GIL 500 us a call) "));
}

TEST(SummaryTable, NamesOtherSettingsWhereTheyVary) {
  Report report = test::sample_report();
  report.runs = {test::sample_run("ddp", 2, 100), test::sample_run("ddp", 2, 110)};
  report.runs[1].optimizer_name = "adam";
  report.runs[1].optimizer = {{"lr", 0.001}};
  report.runs[1].optimizer_choices = {{"lr_schedule", "cosine"}};
  EXPECT_THAT(render_table(report, 0),
              AllOf(HasSubstr("\nddp (adam, "), HasSubstr("lr schedule cosine")));
  report.runs[1].precision = "bf16";
  EXPECT_THAT(render_table(report, 0), HasSubstr("\nddp (bf16, adam, "));
}

TEST(SummaryTable, ShowsNoEfficiencyForOversubscribedRuns) {
  const std::string table = render_table(test::sample_report(), 0);
  EXPECT_THAT(table, ContainsRegex("ps +4\\+1 .* - +- .*\\([0-9]\\)\n"));
  EXPECT_THAT(table, HasSubstr(") more compute threads than cores: not ranked"));
}

TEST(SummaryTable, MarksARunThatFailedItsVerification) {
  report::Run run = test::sample_run("ddp", 2, 100);
  run.status = Status::failed;
  run.error = ErrorInfo{"verification", {}, "", {}, {}, "", "", "0.5 is above 0.0006"};
  run.verification.status = "failed";
  run.verification.reason = "conv2.weight is 0.5 away";
  run.step = {};  // the steps that are verified come first
  run.epochs.clear();
  for (const int width : {0, 80}) {
    const std::string table = render_table(one_run(run), width);
    EXPECT_THAT(table, ContainsRegex("\nddp +2 [^\n]* NO +failed \\(1\\) \\(2\\)\n"));
    EXPECT_THAT(table, HasSubstr("(1) failed: verification: 0.5 is above 0.0006\n"));
    EXPECT_THAT(table, HasSubstr("(2) does NOT agree with one device: conv2.weight is 0.5 away\n"));
  }
}

TEST(SummaryTable, ShowsWhatAnInterruptedRunHasAndSaysSo) {
  report::Run run = test::sample_run("ddp", 2, 100);
  run.status = Status::interrupted;
  run.epochs.clear();
  const std::string table = render_table(one_run(run), 0);
  EXPECT_THAT(table, ContainsRegex("\nddp +2 .* 20.00 .*\\(1\\)\n"));
  EXPECT_THAT(table, HasSubstr("\n(1) interrupted"));
}

TEST(SummaryTable, ShowsNoNumberInPlaceOfAMissingFigure) {
  report::Run run = test::sample_run("ddp", 2, 100);
  run.phases["comm_s"] = Figure::missing("observing is off");
  run.epochs[0].train_loss = std::numeric_limits<double>::quiet_NaN();
  run.verification.status = "not_applicable";
  run.verification.reason = "asynchronous";
  run.devices.clear();
  const std::string table = render_table(one_run(run), 0);
  EXPECT_THAT(table, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("MiB"))));
  EXPECT_THAT(table, HasSubstr("(1) not verified: asynchronous"));
}

TEST(SummaryTable, KeepsControlCharactersFromTheTerminal) {
  report::Run run = test::sample_run("ddp", 2, 100);
  run.status = Status::skipped;
  run.step = {};
  run.reason = "first\nsecond\x1b[31m";
  EXPECT_THAT(render_table(one_run(run), 0), HasSubstr("(1) skipped: first second [31m"));
}

TEST(SummaryTable, SaysThatTheDataAreSynthetic) {
  report::Run run = test::sample_run("single", 1, 100);
  run.dataset_source = "synthetic";
  EXPECT_THAT(render_table(one_run(run), 80), HasSubstr("simple_cnn on mnist (synthetic)"));
}

TEST(SummaryTable, ShowsHowLongDpsOtherDevicesIdle) {
  report::Run run = test::sample_run("dp", 2, 1000);
  EXPECT_THAT(render_table(one_run(run), 0), Not(HasSubstr("idle ms")));
  run.devices[1].phases["comm_wait_s"] = Figure::of(0.002);
  run.devices[1].phases["idle_s"] = Figure::of(0.00325);
  EXPECT_THAT(render_table(one_run(run), 0),
              ::testing::AllOf(HasSubstr("idle ms"), HasSubstr(" 5.25 ")));
}

TEST(TextLayout, WrapsWordsAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("(1) one two three", 11, 4), "(1) one two\n    three\n");
  EXPECT_EQ(wrap("an unbreakable-word", 5, 2), "an\n  unbreakable-word\n");
  EXPECT_EQ(wrap("a  b", 0, 4), "a b\n");
}

TEST(TextLayout, CountsCodePointsNotBytes) { EXPECT_EQ(display_width("µ-ß"), 3u); }

TEST(TextLayout, DropsTheLeastNeededColumnsFirst) {
  TextTable table;
  table.columns = {{"", "k", true, 0, {"x"}},
                   {"", "aaaa", false, 1, {"1"}},
                   {"", "bbbb", false, 2, {"2"}},
                   {"", "cccc", false, 0, {"3"}}};
  EXPECT_EQ(render_rows(table, 19), "k  aaaa  bbbb  cccc\nx     1     2     3\n");
  EXPECT_EQ(render_rows(table, 18), "k  aaaa  cccc\nx     1     3\n");
  EXPECT_EQ(render_rows(table, 12), "k  cccc\nx     3\n");
  EXPECT_EQ(render_rows(table, 1), "k  cccc\nx     3\n");  // the others stay
}

}  // namespace
}  // namespace ddpbench::report
