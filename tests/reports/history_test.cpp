// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Settings over commits: in which order, with which intervals.
#include "reports/metrics/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/table/table.h"
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

ReportFile file_of(const std::string& commit, const std::string& started_at,
                   const std::vector<double>& medians_s) {
  ReportFile file{"of-" + commit + ".json", test::gate_report(medians_s)};
  file.report.generator.git_commit = commit;
  file.report.generator.git_dirty = false;
  file.report.started_at = started_at;
  return file;
}

// Given out of order; the second commit has two reports.
std::vector<ReportFile> three_commits() {
  return {file_of("bbbbbbbbbbbbbbbb", "2026-02-02T00:00:00Z", {0.022, 0.024}),
          file_of("aaaaaaaaaaaaaaaa", "2026-02-01T00:00:00Z", {0.020, 0.021, 0.022}),
          file_of("cccccccccccccccc", "2026-02-03T00:00:00Z", {0.010}),
          file_of("bbbbbbbbbbbbbbbb", "2026-02-02T01:00:00Z", {0.023})};
}

TEST(History, HasAPointForEachCommitInTheOrderOfMeasuring) {
  const std::vector<ReportFile> files = three_commits();
  const History history = history_of(all_runs(files));
  ASSERT_EQ(history.commits.size(), 3u);
  EXPECT_EQ(history.commits[0].name, "aaaaaaaaaaaa");
  EXPECT_EQ(history.commits[1].started_at, "2026-02-02T00:00:00Z");
  ASSERT_EQ(history.lines.size(), 1u);
  EXPECT_EQ(history.lines[0].name, "ddp on 2 devices");
  const std::vector<HistoryPoint>& points = history.lines[0].points;
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[1].repetitions, 3u);
  EXPECT_DOUBLE_EQ(points[1].step_s, 0.023);
  EXPECT_DOUBLE_EQ(*points[1].spread.low.value, 0.022);
  EXPECT_DOUBLE_EQ(*points[1].spread.high.value, 0.024);
  EXPECT_FALSE(points[2].spread.low.value);
}

TEST(History, KeepsTheOrderGivenWhereNotAllTimesAreRecorded) {
  std::vector<ReportFile> files = three_commits();
  EXPECT_TRUE(history_of(all_runs(files)).measured_order);
  files[2].report.started_at.clear();
  const History history = history_of(all_runs(files));
  EXPECT_FALSE(history.measured_order);
  EXPECT_EQ(history.commits[0].name, "bbbbbbbbbbbb");
  EXPECT_EQ(history.commits[2].name, "cccccccccccc");
  const std::string text = render_history(history, 0);
  EXPECT_THAT(text, HasSubstr("Commits are in the order in which their reports were given"));
  EXPECT_THAT(text, ContainsRegex("\ncccccccccccc +\\? +1 "));
}

TEST(History, KeepsDataOfOneNameWithOtherNumbersOfSamplesApart) {
  std::vector<ReportFile> files = three_commits();
  files[2].report.runs[0].train_samples = 6000;
  EXPECT_EQ(history_of(all_runs(files)).lines.size(), 2u);
}

TEST(History, KeepsSettingsAndHostsApart) {
  std::vector<ReportFile> files = three_commits();
  files[0].report.environment.hosts = {"other"};
  files[2].report.runs[0].strategy_options["overlap"] = "off";
  EXPECT_EQ(history_of(all_runs(files)).lines.size(), 3u);
}

TEST(History, LeavesOutWhatSaysNothingOfTheProgram) {
  std::vector<ReportFile> files = three_commits();
  files[1].report.runs[0].injected = "slow";
  files[1].report.runs[1].verification.status = "failed";
  files[1].report.runs[2].status = Status::failed;
  const History history = history_of(all_runs(files));
  EXPECT_EQ(history.left_out, 3u);
  EXPECT_EQ(history.lines.at(0).points.size(), 2u);
  EXPECT_THAT(render_history(history, 0), HasSubstr("left out: 3 runs"));
}

TEST(History, TakesReportsWithoutACommitByTheirFiles) {
  std::vector<ReportFile> files = three_commits();
  for (ReportFile& file : files) file.report.generator.git_commit.reset();
  const History history = history_of(all_runs(files));
  EXPECT_EQ(history.commits.size(), 3u);  // two files have the same name
  EXPECT_EQ(history.commits[0].name, "of-aaaaaaaaaaaaaaaa.json");
}

TEST(HistoryTable, HasALineForEachCommit) {
  const std::vector<ReportFile> files = three_commits();
  const std::string text = render_history(history_of(all_runs(files)), 0);
  EXPECT_THAT(text, testing::StartsWith("ddp on 2 devices\n"));
  EXPECT_THAT(text, ContainsRegex("\naaaaaaaaaaaa +2026-02-01 +3 +21.000 \\(20.000..22.000\\)"));
  EXPECT_THAT(text, ContainsRegex("\nbbbbbbbbbbbb +2026-02-02 +3 +23.000 \\(22.000..24.000\\) +"
                                  "\\+9.5 %"));
  EXPECT_THAT(text, ContainsRegex("\ncccccccccccc +2026-02-03 +1 +10.000 +-56.5 %"));
}

}  // namespace
}  // namespace ddpbench::report
