// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Verdicts in reports, and as text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "reports/json/report_json.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "reports/why/why_cause.h"
#include "tests/reports/schema_validator.h"
#include "tests/reports/why_support.h"

namespace ddpbench::report {
namespace {

TEST(Why, CountsGradientsInFp32WhateverProductsAreComputedIn) {
  report::Run run;
  run.parameters = 1000;
  for (const char* precision : {"fp32", "tf32", "bf16"}) {
    run.precision = precision;
    EXPECT_EQ(gradient_bytes(run), 4000) << precision;
  }
}

TEST(Why, SaysThatOtherProgramsRanWhereItFindsNoLoss) {
  const Step step = {.comm = 5, .exposed = 0.5};
  report::Run run = make_run("ddp", {step, step});
  run.conditions.emplace().other_load_ratio = Figure::of(0.47);
  const Verdict verdict = verdict_of(run);
  EXPECT_EQ(verdict.cause, Cause::busy_machine);
  EXPECT_EQ(verdict.sentence, "no large loss, but other programs used 47 % of the CPU");
  EXPECT_EQ(verdict.advice, "measure on an idle machine");
}

TEST(FillWhy, IsWrittenReadAndValid) {
  const Step step = {.comm = 40, .exposed = 30};
  Report report = report_of(make_run("ddp", {step, step}));
  fill_why(report);
  EXPECT_FALSE(report.runs[0].why);
  ASSERT_TRUE(report.runs[1].why);
  EXPECT_EQ(report.runs[1].why->cause, "slow_link");
  const nlohmann::ordered_json document = to_json(report);
  const auto errors =
      ddpbench::test::schema_errors(nlohmann::json(document), DDPBENCH_REPORT_SCHEMA);
  EXPECT_TRUE(errors.empty()) << errors.front();
  const Report again = parse_report(document.dump(), "memory");
  ASSERT_TRUE(again.runs[1].why);
  EXPECT_EQ(again.runs[1].why->sentence, report.runs[1].why->sentence);
  EXPECT_EQ(to_json(again), document);
}

// Processor time, which other programs do not lengthen.
TEST(FillWhy, TakesTimeThatGrowsWithTheSettings) {
  const auto seconds_of = [](int settings) {
    Report report = report_of(make_run("ddp", {{.comm = 40, .exposed = 30}, {.comm = 40}}));
    report.runs.reserve(2 * static_cast<std::size_t>(settings));
    for (int i = 1; i < settings; ++i) {
      for (const std::size_t one : {0, 1}) {
        report.runs.push_back(report.runs[one]);
        report.runs.back().per_device_batch_size = 64 + i;
      }
    }
    const double begin_s = thread_cpu_s();
    fill_why(report);
    return thread_cpu_s() - begin_s;
  };
  const double few_s = seconds_of(100);
  EXPECT_LT(seconds_of(400), 8 * few_s);  // 16 times if each run looked at all
}

// The repetitions of ddp on 2 devices that keep so many ms of their communication exposed.
Report with_exposed(const std::vector<double>& all) {
  Report report;
  for (const double exposed : all) {
    const Step step = {.comm = exposed > 0 ? 95.0 : 0.0, .exposed = exposed};
    report::Run run = make_run("ddp", {step, step});
    run.repetition = static_cast<int>(report.runs.size()) - 1;
    if (report.runs.empty()) {
      report = report_of(std::move(run));
      report.runs.back().repetition = 0;
    } else {
      report.runs.push_back(std::move(run));
    }
  }
  fill_scaling(report);
  return report;
}

TEST(RenderWhy, TakesTheMedianOfEachPartAndTheCauseOfMostRepetitions) {
  const Report report = with_exposed({30, 20, 90});
  const std::string text = render_why(report, 60);
  EXPECT_SAYS(render_why(report, 0),
              "Why: ddp on 2 devices: in 3 of 3 runs, as in repetition 1: all-reduce not hidden");
  EXPECT_EQ(text.find("Why:", 1), std::string::npos) << text;
  EXPECT_SAYS(render_why(report, 0), "(30.0 ms of 49.2 ms)");
  EXPECT_SAYS(render_why(report, 0), "communication not hidden 61 %");
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    EXPECT_LE(end - begin, 60u) << text;
  }
}

TEST(RenderWhy, CountsTheCausesWhereNoneIsThatOfMost) {
  const std::string text = render_why(with_exposed({30, 0, 0, 20}), 0);
  EXPECT_SAYS(text, "Why: ddp on 2 devices: no single cause in 4 runs: ");
  EXPECT_SAYS(text, " in 2 (51 to 61 % of the step)");
  EXPECT_SAYS(text, "nothing large to gain in 2");
}

// Of 38.2 ms, 10.2 are lost, though 10.2 of communication and 9 of the host are parts.
TEST(RenderWhy, SaysWhichPartsSingleHasToo) {
  const Step single = {.gap = 9}, step = {.comm = 20, .exposed = 10.2, .gap = 9};
  const std::string text = render_why(report_of(make_run("ddp", {step, step}), single), 0);
  EXPECT_SAYS(text, "communication not hidden 27 %");
  EXPECT_SAYS(text, "between phases 24 %; one device needs these, too: compute 49 %, ");
  const Step none = {.input = 0, .gap = 0}, alone = {.input = 0, .exposed = 10, .gap = 0};
  EXPECT_FALSE(
      says(render_why(report_of(make_run("ddp", {alone, alone}), none), 0), "needs these"));
}

TEST(RenderWhy, TellsSettingsOfOneStrategyApart) {
  const Step step = {.comm = 95, .exposed = 30};
  const report::Run run = make_run("ddp", {step, step});
  Report report = report_of(run);
  report.runs.push_back(run);
  report.runs[report.runs.size() - 2].strategy_options["bucket_cap_mb"] = "1";
  report.runs.back().strategy_options["bucket_cap_mb"] = "25";
  const std::string text = render_why(report, 0);
  EXPECT_SAYS(text, "ddp on 2 devices (bucket cap 1 MiB):");
  EXPECT_SAYS(text, "ddp on 2 devices (bucket cap 25 MiB):");
}

TEST(RenderWhy, TellsTheServersApart) {
  const Step step = {.comm = 95, .exposed = 30};
  report::Run run = make_run("ps", {step, step});
  run.servers = 1;
  Report report = report_of(run);
  report.runs.push_back(run);
  report.runs.back().servers = 2;
  const std::string text = render_why(report, 0);
  EXPECT_SAYS(text, "Why: ps on 2 devices and 1 server: ");
  EXPECT_SAYS(text, "Why: ps on 2 devices and 2 servers: ");
}

TEST(RenderWhy, SaysNothingOfTuning) {
  const Step step = {.comm = 95, .exposed = 30};
  Report report = report_of(make_run("ddp", {step, step}));
  EXPECT_NE(render_why(report, 0), "");
  report.tune.emplace();
  EXPECT_EQ(render_why(report, 0), "");
  fill_why(report);
  EXPECT_FALSE(report.runs[1].why);
}

TEST(RenderWhy, ExplainsTheRowsThatAreShownAlone) {
  const Step step = {.comm = 95, .exposed = 30};
  const Report report = report_of(make_run("ddp", {step, step}));
  std::vector<RunRow> rows = all_runs(report);
  std::erase_if(rows, [](const RunRow& row) { return row.run->strategy != "single"; });
  EXPECT_EQ(render_why(rows, 0), "");
  rows = all_runs(report);
  rows.erase(rows.begin());  // the baseline is in the report but not shown
  const std::string text = render_why(rows, 0);
  EXPECT_EQ(text.find("Why: ddp on 2 devices:"), 0u) << text;
  EXPECT_FALSE(says(text, "no baseline:")) << text;
}

TEST(RenderWhy, NamesTheFileOfSeveral) {
  const Step step = {.comm = 95, .exposed = 30};
  const Report report = report_of(make_run("ddp", {step, step}));
  const std::vector<ReportFile> files = {{"a.json", report}, {"runs/b.json", report}};
  const std::string text = render_why(all_runs(files), 0);
  EXPECT_SAYS(text, "Why: a.json: ddp on 2 devices: all-reduce not hidden");
  EXPECT_SAYS(text, "Why: b.json: ddp on 2 devices: all-reduce not hidden");
}

TEST(WarningLines, NameTheFileOfSeveral) {
  Report report = test::sample_report();
  report.runs[0].step.warmup_steady = false;
  EXPECT_SAYS(row_warnings(all_runs(report)).front().line(), "[a] step times were not steady");
  const std::vector<ReportFile> files = {{"b.json", test::sample_report()}, {"a.json", report}};
  EXPECT_SAYS(row_warnings(all_runs(files)).front().line(), "[a] a.json: step times were not");
}

}  // namespace
}  // namespace ddpbench::report
