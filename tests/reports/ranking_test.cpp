// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Only runs that do the same work compete.
#include "reports/metrics/ranking.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "reports/charts/chart_data.h"
#include "reports/html/page.h"
#include "reports/json/report_json.h"
#include "reports/metrics/metrics.h"
#include "reports/metrics/scaling.h"
#include "reports/table/table.h"
#include "reports/why/why.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using test::report_of;
using test::sample_run;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Run with_batch(const char* strategy, int world_size, std::int64_t batch, double samples_per_s) {
  Run run = sample_run(strategy, world_size, samples_per_s);
  run.per_device_batch_size = batch;
  run.global_batch_size = batch * world_size;
  return run;
}

std::vector<Contest> ranked(const Report& report) { return contests(all_runs(report)); }

std::string page_of(Report report) {
  HtmlInput input;
  input.names = {"a.json"};
  input.reports = {std::move(report)};
  return html_page(input);
}

// The case of docs: dp at batch 128 was called 25 % ahead of ddp at batch 1024.
TEST(Ranking, ComparesNoRunsOfDifferentGlobalBatches) {
  const Report report =
      report_of({with_batch("dp", 2, 128, 5000), with_batch("ddp", 2, 1024, 4000)});
  const std::vector<Contest> found = ranked(report);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(page_of(report), Not(HasSubstr("ahead of")));
}

TEST(Ranking, ComparesNoRunsOfDifferentWork) {
  const report::Run run = sample_run("dp", 2, 5000);
  report::Run network = sample_run("ddp", 2, 6000), data = network, precision = network,
              device = network;
  network.model = "lenet5";
  data.dataset_name = "fashion_mnist";
  precision.precision = "bf16";
  device.device = "cuda";
  for (const report::Run& other : {network, data, precision, device}) {
    EXPECT_EQ(ranked(report_of({run, other})).size(), 2U);
  }
  EXPECT_EQ(ranked(report_of({run, sample_run("ddp", 2, 6000)})).size(), 1U);
}

TEST(Ranking, ComparesNoNetworksOfOneNameWithOtherContent) {
  report::Run base = sample_run("single", 1, 5000), wide = base;
  wide.model_hash = "fedcba9876543210";
  wide.samples_per_s = Figure::of(3700);
  const Report report = report_of({base, wide});
  EXPECT_EQ(ranked(report).size(), 2U);
  EXPECT_THAT(scaling_chart({&report, 1}).series[1].name, HasSubstr("network fedcba98"));
}

// A part of MNIST and all of it: these are no repetitions of each other.
TEST(Ranking, ComparesNoDataOfOneNameWithOtherNumbersOfSamples) {
  report::Run all = sample_run("ddp", 2, 5000), part = all;
  part.train_samples = 6000;
  const Report report = report_of({all, sample_run("dp", 2, 4000), part});
  EXPECT_EQ(ranked(report).size(), 2U);
  for (const ScalingPoint& point : scaling_chart({&report, 1}).points) {
    EXPECT_EQ(point.samples_per_s.count, 1);
  }
}

TEST(Ranking, NamesWhatNothingWasSpentOnWhereAnotherRunSpentSome) {
  std::vector<report::Run> runs = {sample_run("dp", 2, 5000), sample_run("ddp", 2, 4000)};
  runs[1].strategy_options["loader_cost_us"] = "500";
  const std::vector<Contest> found = ranked(report_of(std::move(runs)));
  ASSERT_EQ(found.size(), 2U);
}

TEST(Ranking, LetsNumbersOfDevicesCompeteOverOneGlobalBatch) {
  report::Run one = with_batch("single", 1, 256, 3000), two = with_batch("ddp", 2, 128, 5600);
  report::Run four = with_batch("ddp", 4, 64, 5000);
  for (report::Run* run : {&one, &two, &four}) run->scaling_mode = "strong";
  Report report = report_of({one, two, four});
  fill_scaling(report);
  const std::vector<Contest> found = ranked(report);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].standings[0].name, "ddp on 2 devices");
  EXPECT_EQ(found[0].standings[1].name, "ddp on 4 devices");
}

TEST(Ranking, LetsPassesCompeteOverOneGlobalBatch) {
  report::Run passes = with_batch("ddp", 2, 64, 5000);
  passes.global_batch_size = 256;
  passes.accumulation_steps = 2;
  const Report report = report_of({passes, with_batch("ddp", 2, 128, 5600)});
  const std::vector<Contest> found = ranked(report);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].standings[0].name, "ddp on 2 devices (batch 128 a device)");
}

TEST(Ranking, KeepsApproximateRunsApart) {
  report::Run fast = sample_run("localsgd", 2, 9000);
  fast.verification = {};
  fast.verification.status = "not_applicable";
  fast.verification.reason = report::Verification::kByDesign;
  report::Run vague = sample_run("dp", 2, 5000);  // exact, though the steps could not show it
  vague.verification.status = "not_applicable";
  vague.verification.reason = "rounding alone may change most parameters";
  const Report report = report_of({fast, vague});
  const std::vector<Contest> found = ranked(report);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].standings.size(), 1U);
  EXPECT_EQ(found[0].standings[0].name, "dp on 2 devices");
  ASSERT_EQ(found[0].approximate.size(), 1U);
  EXPECT_EQ(found[0].approximate[0].name, "localsgd on 2 devices");
}

TEST(Ranking, LeavesOutWhatDidNotRunAsPlanned) {
  std::vector<report::Run> runs(5, sample_run("ddp", 2, 9000));
  runs[0].status = Status::interrupted;
  runs[1].verification.status = "failed";
  runs[2].injected = "slow:rank=1,percent=5";
  runs[3].oversubscribed = true;
  runs[4].samples_per_s = Figure::missing("no timed step was finished");
  runs.push_back(sample_run("dp", 2, 5000));
  const std::vector<Contest> found = ranked(report_of(runs));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].standings[0].name, "dp on 2 devices");
}

TEST(Ranking, ChartsSayThatAReportWasInterrupted) {
  Report report = report_of({sample_run("dp", 2, 5000)});
  report.status = Status::interrupted;
  EXPECT_THAT(scaling_chart({&report, 1}).caption.notes,
              Contains("1 of 1 report interrupted: runs are missing"));
}

// Of five repetitions of single, dp and ddp one that was disturbed is drawn in; with two the
// setting is disturbed.
TEST(Ranking, RanksNoSettingOfWhichMoreThanAQuarterWasDisturbed) {
  const auto answer_with = [](std::size_t first, std::size_t disturbed) {
    std::vector<report::Run> runs;
    for (int i = 0; i < 5; ++i) {
      for (const auto& [strategy, devices, rate] :
           {std::tuple("single", 1, 7000), {"dp", 2, 10000}, {"ddp", 2, 11000}}) {
        runs.push_back(sample_run(strategy, devices, rate * (1 + 0.005 * i)));
        runs.back().repetition = i;
      }
    }
    for (std::size_t i = 0; i < disturbed; ++i)
      runs[first + 3 * i].conditions = Conditions{.other_load_ratio = Figure::of(0.4)};
    Report report = report_of(std::move(runs));
    fill_scaling(report);
    return answer_lines(all_runs(report));
  };
  for (const std::size_t compared : {0U, 2U}) {
    EXPECT_THAT(answer_with(compared, 1)[0], StartsWith("ddp on 2 devices: 1.57 times"));
    EXPECT_THAT(answer_with(compared, 2)[0], StartsWith("No answer: other programs used 40 %"));
  }
  // dp is slower, perhaps by what disturbed it alone.
  const auto others = answer_with(1, 2);
  EXPECT_THAT(others[0],
              AllOf(StartsWith("ddp on 2 devices: 1.57 times"), Not(HasSubstr("ahead"))));
  EXPECT_EQ(others[1], "How sure: 2 devices beat 1. dp on 2 devices: disturbed, not ranked.");
}

}  // namespace
}  // namespace ddpbench::report
