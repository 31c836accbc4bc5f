// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs as markdown, csv and json, and views of several reports.
#include "reports/exports/run_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "reports/table/table.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

Columns columns(const std::vector<std::string>& names) {
  Columns found;
  for (const std::string& name : names) {
    found.push_back(find_column(name));
    EXPECT_NE(found.back(), nullptr) << name;
  }
  return found;
}

// What `ddpbench show --format` writes.
std::string written(std::string_view format, std::span<const RunRow> rows, const Columns& columns) {
  return std::ranges::find(run_formats(), format, &RunFormat::name)->write(rows, columns, 0);
}

std::vector<std::string> strategies(const std::vector<RunRow>& rows) {
  std::vector<std::string> names;
  for (const RunRow& row : rows) names.push_back(row.run->strategy);
  return names;
}

// A strict reader of RFC 4180: one record on each line, which ends with LF.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records(1);
  std::string cell;
  bool quoted = false, closed = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += text[++i];
    } else if (quoted && c == '"') {
      quoted = false;
      closed = true;
    } else if (quoted) {
      cell += c;
    } else if (c == '"') {
      EXPECT_TRUE(cell.empty() && !closed) << "a quote within a bare cell at byte " << i;
      quoted = true;
    } else if (c == ',' || c == '\n') {
      records.back().push_back(std::exchange(cell, {}));
      closed = false;
      if (c == '\n') records.emplace_back();
    } else {
      EXPECT_FALSE(closed) << "text after a closing quote at byte " << i;
      cell += c;
    }
  }
  EXPECT_FALSE(quoted) << "an open quote at the end";
  EXPECT_TRUE(cell.empty() && records.back().empty()) << "no newline at the end";
  records.pop_back();
  return records;
}

std::vector<std::map<std::string, std::string>> csv_rows(const std::string& text) {
  const auto records = parse_csv(text);
  std::vector<std::map<std::string, std::string>> rows;
  for (std::size_t i = 1; i < records.size(); ++i) {
    EXPECT_EQ(records[i].size(), records[0].size());
    rows.emplace_back();
    for (std::size_t c = 0; c < records[0].size(); ++c) rows.back()[records[0][c]] = records[i][c];
  }
  return rows;
}

TEST(RunColumns, HaveNamesAndKeysThatDiffer) {
  std::set<std::string> names, keys;
  for (const Column& column : run_columns()) {
    EXPECT_TRUE(names.insert(column.name).second) << column.name;
    EXPECT_FALSE(column.about.empty()) << column.name;
    EXPECT_FALSE(column.fields.empty()) << column.name;
    for (const Field& field : column.fields) {
      EXPECT_TRUE(keys.insert(field.key).second) << field.key;
    }
  }
  EXPECT_EQ(find_column("stpe"), nullptr);
}

TEST(RunColumns, GiveAReasonForEveryMissingValue) {
  const Report report = test::sample_report();
  for (const RunRow& row : all_runs(report)) {
    for (const Column& column : run_columns()) {
      for (const Field& field : column.fields) {
        const FieldValue value = field.value(row);
        EXPECT_EQ(value.value.index() == 0, !value.reason.empty()) << field.key;
      }
    }
  }
}

TEST(RunColumns, AreFoundByNameKeyAndHeading) {
  EXPECT_EQ(find_column("repetitions"), find_column("reps"));
  EXPECT_EQ(find_column("step"), find_column("step_time_median_s"));
  ASSERT_NE(find_column("reps"), nullptr);
  EXPECT_EQ(find_column("ms"), nullptr);
}

TEST(RunColumns, SortWithMissingValuesLastInBothDirections) {
  const Report report = test::sample_report();
  std::vector<RunRow> rows = all_runs(report);
  sort_rows(rows, *find_column("rate"), true);
  EXPECT_THAT(strategies(rows), ElementsAre("ddp", "ps", "dp", "single", "ddp", "dp"));
  sort_rows(rows, *find_column("rate"), false);
  EXPECT_THAT(strategies(rows), ElementsAre("single", "dp", "ps", "ddp", "ddp", "dp"));
}

TEST(TableText, ShowsTheChosenColumnsInTheirOrder) {
  const Report report = test::sample_report();
  const std::string text =
      table_text(all_runs(report), columns({"strategy", "devices", "forward", "status"}), 0);
  EXPECT_THAT(text, StartsWith("strategy  devices  forward ms  status\n"
                               "single          1        6.00  ok\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\nddp +4 +- +failed +failed \\([0-9]\\)\n"));
}

TEST(TableText, SaysOfEveryRowWhichRunItIsWhereverItsNameStands) {
  const Report report = test::sample_report();
  const std::string text = table_text(all_runs(report), columns({"rate", "strategy"}), 0);
  EXPECT_THAT(text, HasSubstr("\n     3200  single\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n +-  ddp +failed \\([0-9]\\)\n"));
}

TEST(MarkdownText, SaysOfARunThatFailedWhetherItsVerificationDid) {
  Report report = test::sample_report();
  report.runs = {report.runs[4]};
  report.runs[0].verification.status = "failed";
  EXPECT_THAT(
      written("markdown", all_runs(report), columns({"strategy", "step", "verified", "rate"})),
      HasSubstr("\n| ddp | - | NO | - | failed (1) (2) |\n"));
}

TEST(MarkdownText, IsATableWithNotesBelow) {
  const Report report = test::sample_report();
  const std::string text =
      written("markdown", all_runs(report), columns({"strategy", "devices", "speedup", "comm"}));
  EXPECT_EQ(text.substr(text.find("| ")),
            "| strategy | devices | speed-up | comm ms |  |\n"
            "| :-- | --: | --: | --: | :-- |\n"
            "| single | 1 | 1.00 | - |  |\n"
            "| dp | 2 | 1.62 | 1.50 |  |\n"
            "| ddp | 2 | 1.91 | 1.50 | (1) |\n"
            "| ps | 4+1 | - | 1.50 | (2) |\n"
            "| ddp | 4 | - | - | failed (3) |\n"
            "| dp | 8 | - | - | skipped (4) |\n"
            "\n"
            "- (1) injected: slow:rank=1,phase=backward,percent=25\n"
            "- (2) more compute threads than cores: not ranked\n"
            "- (3) failed: rank 2, step 5, signal: killed by SIGKILL\n"
            "- (4) skipped: no CUDA device is here\n"
            "- All 4 agree with one device (3 steps). One run each: --repetitions=7 gives "
            "intervals (about 6 min).\n"
            "- Why: dp on 2 devices: scales: 100 % efficiency; nothing large to gain.\n"
            "- Why: ddp on 2 devices: scales: 100 % efficiency; nothing large to gain.\n"
            "- Why: ps on 4 devices and 1 server: oversubscribed: 5 threads of 5 devices share 2 "
            "cores and take turns, so this measures the scheduler; use no more devices than there "
            "are.\n");
}

TEST(MarkdownText, HasTheWarningsOfEachReportOnce) {
  Report report = test::sample_report();
  report.cells = {{.runs = {0}, .noisy = true}};
  report.tune.emplace().conclusion = "Keep the default.";
  const std::vector<ReportFile> files = {{"a.json", report}, {"b.json", test::sample_report()}};
  const std::string text = written("markdown", all_runs(files), columns({"strategy"}));
  const std::string warning = "- \\[a\\] a.json: 1 of 1 settings are noisy";
  EXPECT_THAT(text, HasSubstr(warning));
  EXPECT_EQ(text.find(warning), text.rfind(warning));
  EXPECT_THAT(text, Not(HasSubstr("b.json: 1 of 1")));
  EXPECT_THAT(text, HasSubstr("- a.json: Keep the default."));
}

TEST(Repetitions, CountFromOneForPeopleAndFromZeroForPrograms) {
  Report report = test::sample_report();
  report.runs = {report.runs[0]};
  report.runs[0].repetition = 2;
  const Columns chosen = columns({"strategy", "repetition"});
  EXPECT_THAT(table_text(all_runs(report), chosen, 0), HasSubstr("single       3"));
  EXPECT_THAT(written("markdown", all_runs(report), chosen), HasSubstr("| single | 3 |"));
  EXPECT_THAT(written("csv", all_runs(report), chosen), HasSubstr("\nsingle,2,"));
}

TEST(MarkdownText, LetsNoTextBreakTheTable) {
  Report report = test::sample_report();
  report.runs = {report.runs[5]};
  report.runs[0].strategy = "a|b\\|c\n<b>";
  const std::string text =
      written("markdown", all_runs(report), columns({"strategy", "devices", "rate"}));
  EXPECT_THAT(text, HasSubstr("\n| a\\|b\\\\\\|c \\<b\\> | 8 | - | skipped (1) |\n"));
}

TEST(CsvText, ReadsBackWithFullPrecision) {
  Report report = test::sample_report();
  report.runs[0].step.time_s->median = 0.1 + 0.2;  // 0.30000000000000004
  const auto rows = csv_rows(written("csv", all_runs(report), all_columns()));
  ASSERT_EQ(rows.size(), report.runs.size());
  EXPECT_EQ(std::stod(rows[0].at("step_time_median_s")), 0.1 + 0.2);
  EXPECT_EQ(rows[0].at("strategy"), "single");
  EXPECT_EQ(rows[2].at("samples_per_s"), "6100.5");
  EXPECT_EQ(rows[1].at("primary_peak_bytes"), "41943040");
  EXPECT_EQ(rows[3].at("oversubscribed"), "true");
  EXPECT_EQ(rows[2].at("strategy_options"), "bucket_cap_mb=25,note=plain,overlap=on");
}

TEST(CsvText, LeavesMissingFiguresEmptyAndSaysWhy) {
  const Report report = test::sample_report();
  const auto rows =
      csv_rows(written("csv", all_runs(report), columns({"strategy", "comm", "rate"})));
  EXPECT_EQ(rows[0].at("comm_s"), "");
  EXPECT_EQ(rows[0].at("missing"), "comm_s: one device");
  EXPECT_EQ(rows[1].at("missing"), "");
  EXPECT_EQ(rows[4].at("missing"), "comm_s: the run failed; samples_per_s: the run failed");
}

// The table shows none, either.
TEST(CsvText, HasNoSpeedupOfADisturbedRun) {
  Report report = test::sample_report();
  report.runs[1].conditions = Conditions{.other_load_ratio = Figure::of(0.71)};
  const auto rows = csv_rows(written("csv", all_runs(report), columns({"strategy", "speedup"})));
  EXPECT_EQ(rows[1].at("speedup"), "");
  EXPECT_EQ(rows[1].at("missing"), "speedup: other programs used 71 % of the CPU");
  EXPECT_NE(rows[2].at("speedup"), "");
}

TEST(CsvText, QuotesWhatWouldBreakALine) {
  Report report = test::sample_report();
  report.runs[0].model = "a \"quoted\", long\r\nname";
  const std::string text = written("csv", all_runs(report), columns({"model", "devices"}));
  EXPECT_THAT(text, HasSubstr("\n\"a \"\"quoted\"\", long\r\nname\",1,0,false,false,\n"));
  EXPECT_EQ(csv_rows(text)[0].at("model"), report.runs[0].model);
  report.runs[0].model = "=HYPERLINK(1)";
  EXPECT_THAT(written("csv", all_runs(report), columns({"model", "devices"})),
              HasSubstr("\n'=HYPERLINK(1),"));
}

TEST(JsonRunsText, IsAnArrayOfFlatObjectsWithReasons) {
  const Report report = test::sample_report();
  const Json runs = Json::parse(written("json", all_runs(report), all_columns()));
  ASSERT_EQ(runs.size(), report.runs.size());
  EXPECT_EQ(runs[0]["comm_s"], nullptr);
  EXPECT_EQ(runs[0]["comm_s_reason"], "one device");
  EXPECT_EQ(runs[1]["comm_s"], 0.0015);
  EXPECT_FALSE(runs[1].contains("comm_s_reason"));
  EXPECT_EQ(runs[1]["world_size"], 2);
  EXPECT_TRUE(runs[1]["primary_peak_bytes"].is_number_integer());
  EXPECT_EQ(runs[3]["oversubscribed"], true);
  EXPECT_EQ(runs[3]["efficiency_reason"], "oversubscribed: more compute threads than cores");
}

TEST(SeveralReports, AreOneTableThatNamesThem) {
  std::vector<ReportFile> files = {{"x/a.json", test::sample_report()},
                                   {"x/b.json", test::sample_report()}};
  const auto rows = all_runs(files);
  const std::string text = table_text(rows, usual_columns(rows), 0);
  EXPECT_THAT(text, HasSubstr("\na.json  single          1"));
  EXPECT_THAT(text, HasSubstr("\nb.json  single          1"));
  EXPECT_THAT(text, Not(HasSubstr("different")));
}

TEST(SeveralReports, AreToldApartByWholePathsWhereNamesAreEqual) {
  const std::vector<ReportFile> files = {{"x/a.json", test::sample_report()},
                                         {"y/a.json", test::sample_report()}};
  EXPECT_EQ(all_runs(files).back().file, "y/a.json");
  const std::vector<ReportFile> twice = {{"x/a.json", test::sample_report()},
                                         {"x/a.json", test::sample_report()}};
  EXPECT_EQ(all_runs(twice).back().file, "a.json");
}

TEST(SeveralReports, SayThatMachinesAndVersionsDiffer) {
  std::vector<ReportFile> files = {{"a.json", test::sample_report()},
                                   {"b.json", test::sample_report()}};
  files[1].report.environment.hosts = {"other"};
  files[1].report.generator.git_commit = "0123456789abcdef";
  files[1].report.generator.git_dirty = true;
  EXPECT_THAT(
      caption(all_runs(files)),
      AllOf(HasSubstr("; different machines: node (Imaginary 9000, 2 cores, Imaginary GPU) / "
                      "other ("),
            HasSubstr("; different versions: ddpbench 0.1.0 / ddpbench 0.1.0 (0123456789ab with "
                      "changes)")));
  files[0].report.generator = files[1].report.generator;
  files[0].report.generator.git_dirty = false;
  files[1].report.generator.git_dirty = std::nullopt;
  files[1].report.generator.git_reason = "the commit was given";
  EXPECT_THAT(caption(all_runs(files)),
              HasSubstr("; different versions: ddpbench 0.1.0 (0123456789ab) / "
                        "ddpbench 0.1.0 (0123456789ab, changes unknown)"));
}

TEST(RunFormats, AreComplete) {
  const Report report = test::sample_report();
  const auto rows = all_runs(report);
  for (const RunFormat& format : run_formats()) {
    const Columns shown = format.all_columns ? all_columns() : usual_columns(rows);
    EXPECT_THAT(format.write(rows, shown, 0), testing::EndsWith("\n")) << format.name;
    // A format must not fail when there are no runs.
    EXPECT_THAT(format.write({}, shown, 0), testing::EndsWith("\n")) << format.name;
  }
}

}  // namespace
}  // namespace ddpbench::report
