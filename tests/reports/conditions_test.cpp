// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The conditions of a run between two made-up snapshots of a machine.
#include "reports/metrics/conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/table/table.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Ten seconds of a machine with four processors. Only the run used any: two of them.
struct Quiet {
  MachineSnapshot before{.wall_s = 100,
                         .busy_s = 50,
                         .stolen_s = 0,
                         .all_s = 400,
                         .own_busy_s = 5,
                         .own_major_page_faults = 3,
                         .own_involuntary_switches = 10,
                         .quota_throttled_s = 1,
                         .cpu_frequency_mhz = 3000,
                         .swapped_in_pages = 7,
                         .thermal_throttles = 2};
  MachineSnapshot after{.wall_s = 110,
                        .busy_s = 70,
                        .stolen_s = 0,
                        .all_s = 440,
                        .own_busy_s = 25,
                        .own_major_page_faults = 5,
                        .own_involuntary_switches = 40,
                        .quota_throttled_s = 1,
                        .cpu_frequency_mhz = 2990,
                        .swapped_in_pages = 7,
                        .thermal_throttles = 2};
};

Run observed(const Quiet& machine) {
  report::Run run = test::sample_run("ddp", 2, 100);
  fill_conditions(run, std::span(&machine.before, 1), std::span(&machine.after, 1));
  return run;
}

TEST(Conditions, AQuietMachineHasFiguresAndNoNotes) {
  const Conditions c = *observed({}).conditions;
  EXPECT_EQ(c.other_load_ratio.value, 0);
  EXPECT_EQ(c.stolen_ratio.value, 0);
  EXPECT_EQ(c.quota_throttled_ratio.value, 0);
  EXPECT_EQ(c.major_page_faults.value, 2);
  EXPECT_EQ(c.involuntary_context_switches.value, 30);
  EXPECT_EQ(c.cpu_frequency_begin_mhz.value, 3000);
  EXPECT_EQ(c.cpu_frequency_end_mhz.value, 2990);
  EXPECT_THAT(c.notes, IsEmpty());
}

TEST(Conditions, OtherLoadIsWhatTheRunDidNotUse) {
  Quiet machine;
  machine.after.busy_s = 84;  // 34 of 40 processor seconds, 20 of them the run's
  const Conditions c = *observed(machine).conditions;
  EXPECT_DOUBLE_EQ(c.other_load_ratio.value.value(), 0.35);
  EXPECT_THAT(c.notes, ElementsAre("other programs used 35 % of the CPU during this run"));
}

TEST(Conditions, OfSeveralMachinesHaveTheLoadOfTheWorst) {
  Quiet here, there;
  there.after.busy_s = 84;
  there.after.cpu_frequency_mhz = 1000;
  const std::vector before = {here.before, there.before, here.before};
  std::vector after = {here.after, there.after, here.after};
  report::Run run = test::sample_run("ddp", 3, 100);
  fill_conditions(run, before, after);
  EXPECT_DOUBLE_EQ(run.conditions->other_load_ratio.value.value(), 0.35);
  EXPECT_EQ(run.conditions->cpu_frequency_end_mhz.value, 2990) << "rank 0's";
  after[2].own_busy_s.reset();
  fill_conditions(run, before, after);
  EXPECT_FALSE(run.conditions->other_load_ratio.value);
}

TEST(Conditions, ClocksThatTickApartGiveNoNegativeLoad) {
  Quiet machine;
  machine.after.own_busy_s = 26;  // more than the busy time of the whole machine
  EXPECT_EQ(observed(machine).conditions->other_load_ratio.value, 0);
}

TEST(Conditions, EverythingOutOfTheOrdinaryIsNoted) {
  Quiet machine;
  machine.after.stolen_s = 4;
  machine.after.quota_throttled_s = 2;
  machine.after.cpu_frequency_mhz = 2400;
  machine.after.thermal_throttles = 5;
  machine.after.swapped_in_pages = 1007;
  machine.after.own_major_page_faults = 5003;
  EXPECT_THAT(
      observed(machine).conditions->notes,
      ElementsAre(HasSubstr("quota stopped it for 10 %"), HasSubstr("virtual machines took 10 %"),
                  HasSubstr("frequency fell by 20 %"), HasSubstr("throttled the CPU 3 times"),
                  HasSubstr("1000 pages were swapped in"),
                  HasSubstr("5000 pages had to come from disk")));
}

TEST(Conditions, AQuotaIsNamedBeforeOtherProcesses) {
  Quiet machine;
  machine.after.busy_s = 84;
  EXPECT_EQ(other_work(observed(machine)), "other programs used 35 % of the CPU");
  machine.after.quota_throttled_s = 2;
  EXPECT_EQ(other_work(observed(machine)), "a CPU quota stopped it for 10 % of the time");
}

TEST(Conditions, DriftOfTheStepsIsNoted) {
  Quiet machine;
  report::Run run = test::sample_run("ddp", 2, 100);
  run.step.samples_s.clear();
  for (int i = 0; i < 120; ++i) run.step.samples_s.push_back(1 + i / 500.0);
  fill_conditions(run, std::span(&machine.before, 1), std::span(&machine.after, 1));
  EXPECT_THAT(run.conditions->notes, ElementsAre("step times drifted by +15 % during this run"));
}

TEST(Conditions, WhatTheSystemDoesNotTellIsMissingWithAReason) {
  report::Run run = test::sample_run("ddp", 2, 100);
  fill_conditions(run, std::vector<MachineSnapshot>(1), std::vector<MachineSnapshot>(1));
  EXPECT_FALSE(run.conditions->other_load_ratio.value);
  EXPECT_THAT(run.conditions->other_load_ratio.reason, Not(IsEmpty()));
  EXPECT_THAT(run.conditions->notes, IsEmpty());
}

TEST(Conditions, CountersThatWereResetCountAsNothing) {
  Quiet machine;
  machine.after.swapped_in_pages = 0;
  EXPECT_EQ(observed(machine).conditions->swapped_in_pages.value, 0);
}

TEST(Warnings, CountTheRunsAndGiveTheWorst) {
  Quiet some, more;
  some.after.busy_s = 75;
  more.after.busy_s = 80;
  Report report;
  report.runs = {observed({}), observed(some), observed(more)};
  const std::vector<Warning> warnings = condition_warnings(report);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].text, "other programs used up to 25 % of the CPU (2 of 3 runs)");
  EXPECT_THAT(warnings[0].runs, ElementsAre(&report.runs[1], &report.runs[2]));
  report.runs = {observed({})};
  EXPECT_THAT(condition_warnings(report), IsEmpty());
  EXPECT_THAT(render_table(report, 0), Not(HasSubstr("other programs")));
}

TEST(Warnings, SayHowFarStepTimesDrifted) {
  Report report;
  report.runs = {observed({}), observed({}), observed({})};
  report.runs[0].conditions->step_drift_ratio = Figure::of(-0.43);
  report.runs[1].conditions->step_drift_ratio = Figure::of(0.16);
  const std::vector<Warning> warnings = condition_warnings(report);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].text, "step times drifted by -43 to +16 % (2 of 3 runs)");
}

TEST(Warnings, MarkTheRowsThatTheyConcern) {
  Quiet busy, swapping;
  busy.after.busy_s = 80;
  swapping.after.swapped_in_pages = 5000;
  Report report;
  report.runs = {observed({}), observed(busy), observed(swapping), observed(busy)};
  const char* strategies[] = {"single", "dp", "ddp", "ps"};
  for (std::size_t i = 0; i < 4; ++i) report.runs[i].strategy = strategies[i];
  std::string table = render_table(report, 0);
  EXPECT_THAT(table, HasSubstr("[a] other programs used up to"));
  EXPECT_THAT(table, ContainsRegex("\\[b\\] [0-9]+ pages were swapped in \\(1 of 4 runs\\)"));
  EXPECT_THAT(table, ContainsRegex("\nsingle +2 [^\n[]*\n"));
  EXPECT_THAT(table, ContainsRegex("\ndp +2 [^\n]* \\[a\\]"));
  EXPECT_THAT(table, ContainsRegex("\nddp +2 [^\n]* \\[b\\]"));
  EXPECT_THAT(table, ContainsRegex("\nps +2 [^\n]* \\[a\\]"));
  // Repetitions share a row, and a warning that concerns every run marks none.
  for (report::Run& run : report.runs) run.strategy = "ddp";
  EXPECT_THAT(render_table(report, 0), ContainsRegex("\nddp +2 [^\n]* \\[a\\] \\[b\\]"));
  report.runs = {observed(busy), observed(busy)};
  report.runs[1].strategy = "dp";
  table = render_table(report, 0);
  EXPECT_THAT(table, ContainsRegex("\nother programs .*\\(2 of 2 runs\\)"));
  EXPECT_THAT(table, ContainsRegex("\ndp +2 [^\n[]*\n"));
}

TEST(Conditions, AreReadBackAsWritten) {
  Quiet machine;
  machine.after.busy_s = 84;
  machine.after.thermal_throttles.reset();
  Report report = test::sample_report();
  fill_conditions(report.runs[2], std::span(&machine.before, 1), std::span(&machine.after, 1));
  report.runs[2].sequence = 4;
  report.runs[2].started_at = "2026-01-31T12:00:05Z";
  report.runs[1].step.warmup_steady = false;
  report.runs[2].step.warmup_reason = "fewer than 10 warm-up steps";
  const auto written = to_json(report);
  EXPECT_THAT(
      ddpbench::test::schema_errors(nlohmann::json::parse(written.dump()), DDPBENCH_REPORT_SCHEMA),
      IsEmpty());
  const Report read = parse_report(written.dump(), "r.json");
  EXPECT_EQ(to_json(read).dump(), written.dump());
  ASSERT_TRUE(read.runs[2].conditions);
  EXPECT_EQ(read.runs[2].conditions->notes, report.runs[2].conditions->notes);
  EXPECT_EQ(read.runs[1].step.warmup_steady, false);
}

}  // namespace
}  // namespace ddpbench::report
