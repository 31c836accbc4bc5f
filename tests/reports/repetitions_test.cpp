// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/metrics/repetitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "reports/json/report_json.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<double> counted(int n) {
  std::vector<double> values;
  for (int i = 1; i <= n; ++i) values.push_back(i);
  return values;
}

TEST(MedianSpread, NeedsSixValuesForAnInterval) {
  EXPECT_FALSE(median_spread(counted(5)).is_interval);
  EXPECT_TRUE(median_spread(counted(6)).is_interval);
}

TEST(MedianSpread, DoesNotDependOnTheOrder) {
  const MedianSpread spread = median_spread({5, 1, 4, 2, 6, 3}), sorted = median_spread(counted(6));
  EXPECT_DOUBLE_EQ(spread.low.value.value(), sorted.low.value.value());
  EXPECT_DOUBLE_EQ(spread.high.value.value(), sorted.high.value.value());
}

TEST(MedianSpread, HoldsTheMedianOfSkewedValues) {
  std::vector<double> values(30, 1.0);
  for (int i = 0; i < 14; ++i) values[static_cast<std::size_t>(i)] = 2;
  const MedianSpread spread = median_spread(values);
  EXPECT_EQ(spread.low.value, 1);
  EXPECT_GT(spread.high.value.value(), 1);
  values[0] = 0;
  EXPECT_FALSE(median_spread(values).is_interval) << "it has no logarithm";
}

Run repeated(const char* strategy, int repetition, double step_s) {
  Run run = test::sample_run(strategy, 2, 100);
  run.repetition = repetition;
  run.step.time_s->median = step_s;
  return run;
}

TEST(Cells, AreThereWhenSomethingWasRepeated) {
  Report report = test::report_of({repeated("dp", 0, 1), repeated("ddp", 0, 1)});
  fill_cells(report, std::nullopt);
  EXPECT_THAT(report.cells, IsEmpty());
  report.runs.push_back(repeated("ddp", 1, 3));
  fill_cells(report, std::nullopt);
  ASSERT_EQ(report.cells.size(), 2u);
  EXPECT_THAT(report.cells[1].runs, ElementsAre(1, 2));
  EXPECT_EQ(report.cells[1].step_median_s.value, 2);
  EXPECT_THAT(report.cells[1].ci_width_ratio.reason, HasSubstr("there are 2"));
  EXPECT_FALSE(report.cells[1].noisy);
}

TEST(Cells, DifferInAnyOptionOfTheStrategy) {
  Report report =
      test::report_of({repeated("ddp", 0, 1), repeated("ddp", 1, 1), repeated("ddp", 0, 1)});
  report.runs[2].strategy_options["bucket_cap_mb"] = "4";
  fill_cells(report, std::nullopt);
  EXPECT_EQ(report.cells.size(), 2u);
}

TEST(Cells, DifferInBackendAccumulationAndKnownDeviceModel) {
  const auto are_repetitions = [](const report::Run& a, const report::Run& b) {
    const Report report = test::report_of({a, b});
    return repetition_groups(all_runs(report)).size() == 1;
  };
  const report::Run run = repeated("ddp", 0, 1);
  report::Run other = run;
  other.backend = "nccl";
  EXPECT_FALSE(are_repetitions(run, other));
  other = run;
  other.accumulation_steps = run.accumulation_steps + 1;
  EXPECT_FALSE(are_repetitions(run, other));
  other = run;
  other.device_model = "Another 9000";
  EXPECT_FALSE(are_repetitions(run, other));
  Report report = test::report_of({run, other, run});
  fill_cells(report, std::nullopt);
  ASSERT_EQ(report.cells.size(), 2u);
  EXPECT_THAT(report.cells[0].runs, ElementsAre(0, 2));
  other.device_model.clear();  // it failed before its model was known
  EXPECT_TRUE(are_repetitions(run, other));
}

TEST(Cells, AreNoisyWhenLessPreciseThanWanted) {
  std::vector<report::Run> runs;
  for (int r = 0; r < 6; ++r) runs.push_back(repeated("dp", r, 1 + 0.001 * r));
  for (int r = 0; r < 6; ++r) runs.push_back(repeated("ddp", r, 1 + 0.1 * r));
  for (int r = 0; r < 5; ++r) runs.push_back(repeated("ps", r, 1));
  Report report = test::report_of(runs);
  fill_cells(report, 0.02);
  ASSERT_EQ(report.cells.size(), 3u);
  EXPECT_FALSE(report.cells[0].noisy);
  EXPECT_TRUE(report.cells[1].noisy);
  EXPECT_NEAR(report.cells[1].ci_width_ratio.value.value(), 0.316, 5e-4);  // t of 5: 2.571
  EXPECT_TRUE(report.cells[2].noisy);  // too few repetitions to know
  EXPECT_THAT(render_table(report, 0), HasSubstr("2 of 3 settings are noisy"));
}

TEST(Cells, LeaveFailedRepetitionsOut) {
  Report report = test::report_of({repeated("ddp", 0, 1), repeated("ddp", 1, 5)});
  report.runs[1].status = Status::failed;
  fill_cells(report, std::nullopt);
  EXPECT_EQ(report.cells[0].step_median_s.value, 1);
}

TEST(Cells, AreReadBackAsWritten) {
  Report report = test::report_of({repeated("ddp", 0, 1), repeated("ddp", 1, 3)});
  fill_cells(report, 0.02);
  const auto written = to_json(report);
  EXPECT_THAT(
      ddpbench::test::schema_errors(nlohmann::json::parse(written.dump()), DDPBENCH_REPORT_SCHEMA),
      IsEmpty());
  EXPECT_EQ(to_json(parse_report(written.dump(), "r.json")).dump(), written.dump());
}

TEST(Cells, WithRunsThatAreNotThereAreRefused) {
  Report report = test::report_of({repeated("ddp", 0, 1), repeated("ddp", 1, 3)});
  fill_cells(report, 0.02);
  auto written = to_json(report);
  written["cells"][0]["runs"][1] = 7;
  EXPECT_THROW(
      {
        try {
          parse_report(written.dump(), "r.json");
        } catch (const std::exception& error) {
          EXPECT_THAT(error.what(), HasSubstr("/cells/0/runs/1"));
          throw;
        }
      },
      std::exception);
}

}  // namespace
}  // namespace ddpbench::report
