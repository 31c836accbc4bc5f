// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of `ddpbench comm`: their formulas, and that they are written, read and shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "reports/exports/run_formats.h"
#include "reports/json/report_json.h"
#include "reports/metrics/metrics.h"
#include "reports/table/table.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::report {
namespace {

using ddpbench::test::schema_errors;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kCollectives[] = {"all_reduce",     "reduce",  "broadcast", "all_gather",
                                        "reduce_scatter", "scatter", "gather",    "send_recv"};

TEST(CollectiveTraffic, OfAnAllReduceIsOneReadAndOneWriteOfEveryBuffer) {
  const CollectiveTraffic traffic = collective_traffic("all_reduce", 4, 1000);
  EXPECT_EQ(traffic.moved_bytes, 8000);
  EXPECT_EQ(traffic.footprint_bytes, 4000);
}

TEST(CollectiveTraffic, ReadsWhatContributesAndWritesResults) {
  EXPECT_EQ(collective_traffic("reduce", 4, 1000).moved_bytes, 5000);
  EXPECT_EQ(collective_traffic("broadcast", 4, 1000).moved_bytes, 4000);
  EXPECT_EQ(collective_traffic("all_gather", 4, 1000).moved_bytes, 5000);
  EXPECT_EQ(collective_traffic("reduce_scatter", 4, 1000).moved_bytes, 5000);
  EXPECT_EQ(collective_traffic("scatter", 4, 1000).moved_bytes, 2000);
  EXPECT_EQ(collective_traffic("gather", 4, 1000).moved_bytes, 2000);
  EXPECT_EQ(collective_traffic("send_recv", 4, 1000).moved_bytes, 8000);
  EXPECT_EQ(collective_traffic("barrier", 4, 0).moved_bytes, 0);
  EXPECT_THROW(collective_traffic("all_to_all", 4, 1000), InternalError);
}

TEST(CollectiveBound, IsTheBusBandwidthInTheTimeThatMemoryNeeds) {
  // 2 ranks of 1 GB: 4 GB at 8 GB/s are 0.5 s; algbw 2 GB/s, factor 1.
  EXPECT_DOUBLE_EQ(bound_bus_bandwidth_gb_per_s("all_reduce", 2, 1e9, 8), 2);
  // 4 ranks: 8 GB at 8 GB/s are 1 s; factor 3/2.
  EXPECT_DOUBLE_EQ(bound_bus_bandwidth_gb_per_s("all_reduce", 4, 1e9, 8), 1.5);
}

TEST(CollectiveBound, DoesNotDependOnTheSize) {
  for (const char* collective : kCollectives) {
    EXPECT_DOUBLE_EQ(bound_bus_bandwidth_gb_per_s(collective, 3, 3e6, 10),
                     bound_bus_bandwidth_gb_per_s(collective, 3, 3e9, 10))
        << collective;
  }
}

CollectiveRow finished_row() {
  CollectiveRow row;
  row.operation = "all_reduce";
  row.backend = "shm";
  row.mode = "process";
  row.ranks = 2;
  row.bytes = 4 << 20;
  row.count = 1 << 20;
  row.data_type = "fp32";
  row.reduction = "sum";
  row.in_place = true;
  row.warmup = 5;
  row.iterations = 3;
  row.time_s = summarize({1e-3, 2e-3, 3e-3});
  row.algbw_gb_per_s = Figure::of(2.1);
  row.busbw_gb_per_s = Figure::of(2.1);
  row.wrong = 0;
  row.bound_busbw_gb_per_s = Figure::of(4.2);
  row.share_of_bound = Figure::of(0.5);
  row.bound = "memory_copy";
  return row;
}

CollectiveRow unfinished_row() {
  CollectiveRow row = finished_row();
  row.operation = "barrier";
  row.mode = "thread";
  row.reduction.clear();
  row.bytes = row.count = 0;
  row.oversubscribed = true;
  row.time_s.reset();
  row.iterations = 0;
  row.wrong.reset();
  row.wrong_reason = "the run ended before the results were checked";
  row.algbw_gb_per_s = row.busbw_gb_per_s = Figure::missing("a barrier moves no data");
  row.bound_busbw_gb_per_s = row.share_of_bound = Figure::missing("a barrier moves no data");
  row.bound.clear();
  return row;
}

Report comm_report() {
  Report report = test::sample_report();
  report.runs.clear();
  report.status = Status::ok;
  report.error.reset();
  report.collectives = {finished_row(), unfinished_row()};
  report.memory_bandwidth = {{4096, 1, {}, 20.5, Figure::of(25.5)},
                             {4096, 2, {}, 40.5, Figure::of(50.5)}};
  return report;
}

// Ranks are threads that share a GPU, and one iteration was late.
Report gpu_report() {
  Report report = comm_report();
  CollectiveRow row = finished_row();
  row.mode = "thread";
  row.device = "cuda";
  row.device_model = "Imaginary GPU";
  row.gpus = {0, 0};
  row.oversubscribed = true;
  row.late_iterations = 1;
  report.collectives = {row};
  report.memory_bandwidth = {{8 << 20, {}, 0, 1975.2, Figure::missing("no reductions")}};
  return report;
}

class CollectiveReports : public testing::TestWithParam<Report (*)()> {};
INSTANTIATE_TEST_SUITE_P(, CollectiveReports, testing::Values(comm_report, gpu_report));

TEST_P(CollectiveReports, AreValidAndReadBackAsWritten) {
  const auto written = to_json(GetParam()());
  for (const std::string& error : schema_errors(json(written), DDPBENCH_REPORT_SCHEMA)) {
    ADD_FAILURE() << error;
  }
  EXPECT_EQ(to_json(parse_report(written.dump(), "some.json")).dump(2), written.dump(2));
}

TEST(CollectiveReport, SaysThatALinkWasEmulated) {
  Report report = comm_report();
  for (CollectiveRow& row : report.collectives) row.emulated_link = "1Gbit,50us";
  const auto written = to_json(report);
  EXPECT_EQ(written["collectives"][0]["emulated_link"], "1Gbit,50us");
  EXPECT_THAT(schema_errors(json(written), DDPBENCH_REPORT_SCHEMA), testing::IsEmpty());
  EXPECT_EQ(parse_report(written.dump(), "some.json").collectives[1].emulated_link, "1Gbit,50us");
  EXPECT_THAT(render_collectives(report, 0), HasSubstr("emulated link 1Gbit,50us"));
}

std::string formatted(const std::string& name, std::vector<ReportFile> files) {
  const auto& formats = run_formats();
  const auto found = std::ranges::find(formats, name, &RunFormat::name);
  return found == formats.end() ? "no such format" : found->write_collectives(files, 0);
}

TEST(CollectiveFormats, OfCsvHaveARowEachWithItsReasons) {
  const std::string text = formatted("csv", {{"a.json", comm_report()}});
  EXPECT_THAT(text, testing::StartsWith("op,backend,ranks,mode,bytes,"));
  EXPECT_THAT(text, AllOf(HasSubstr(",time_s_median,"), HasSubstr(",busbw_gb_per_s,"),
                          HasSubstr(",missing\nall_reduce,")));
  EXPECT_THAT(text, HasSubstr("busbw_gb_per_s: a barrier moves no data"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_THAT(formatted("csv", {{"a.json", comm_report()}, {"b.json", comm_report()}}),
              AllOf(testing::StartsWith("report,op,"), HasSubstr("\nb.json,all_reduce,")));
}

TEST(CollectiveFormats, OfJsonAreFlatObjectsWithNumbers) {
  const json rows = json::parse(formatted("json", {{"a.json", comm_report()}}));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["busbw_gb_per_s"], 2.1);
  EXPECT_TRUE(rows[0]["time_s_median"].is_number());
  EXPECT_TRUE(rows[1]["busbw_gb_per_s"].is_null());
  EXPECT_EQ(rows[1]["busbw_gb_per_s_reason"], "a barrier moves no data");
  for (const auto& [key, value] : rows[0].items()) EXPECT_FALSE(value.is_object()) << key;
}

TEST(CollectiveFormats, OfMarkdownAreGitHubsTables) {
  EXPECT_THAT(formatted("markdown", {{"a.json", comm_report()}}),
              AllOf(HasSubstr("\n| op | ranks | size |"), HasSubstr("\n| all\\_reduce | ")));
}

TEST(CollectiveTable, SaysTheAverageOfAnOperationsSizes) {
  Report report = comm_report();
  CollectiveRow larger = finished_row();
  larger.bytes *= 2;
  larger.busbw_gb_per_s = Figure::of(4.1);
  report.collectives.push_back(larger);
  EXPECT_THAT(render_collectives(report, 0), HasSubstr(" 3.10 GB/s (2 sizes)"));
  EXPECT_THAT(render_collectives(comm_report(), 0), Not(HasSubstr("average busbw")));
}

TEST(CollectiveTable, SaysInTheHeadingWhatAllRowsHave) {
  Report report = comm_report();
  report.collectives = {finished_row(), finished_row()};
  report.collectives[1].bytes = 8 << 20;
  const CollectiveTables tables = collective_tables(report);
  EXPECT_THAT(tables.caption,
              testing::EndsWith(", op all_reduce, ranks 2, type fp32, redop sum, in place yes"));
  EXPECT_EQ(tables.collectives.columns.front().bottom, "size");
  EXPECT_EQ(tables.collectives.row(1).front(), "8 MiB");
  std::istringstream lines(render_rows(tables.collectives, 0));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_EQ(collective_tables(comm_report()).collectives.columns.front().bottom, "op");
}

TEST(CollectiveTable, ShowsNoBoundOfBandwidthWhereLatencyDecides) {
  Report report = comm_report();
  report.collectives = {finished_row(), finished_row()};
  report.collectives[1].bytes = 4096;
  const std::string text = render_collectives(report, 0);
  EXPECT_THAT(text, HasSubstr("(1) below 1 MiB latency decides, which the bound leaves out"));
  EXPECT_THAT(text, AllOf(HasSubstr(" 4.20 "), HasSubstr(" 50.0 ")));
  const TextTable table = collective_tables(report).collectives;
  for (const char* column : {"share", "bound"}) {
    const auto found = std::ranges::find(table.columns, column, &TextColumn::top);
    ASSERT_NE(found, table.columns.end());
    EXPECT_EQ(found->cells[1], "-(1)");
  }
}

TEST(CollectiveTable, SaysWhichCollectivesWereInPlace) {
  Report report = comm_report();
  report.collectives[1].in_place = false;
  const TextTable table = collective_tables(report).collectives;
  const auto column = std::ranges::find(table.columns, "place", &TextColumn::bottom);
  ASSERT_NE(column, table.columns.end());
  EXPECT_EQ(column->top, "in");
  EXPECT_THAT(column->cells, testing::ElementsAre("yes", "no"));
  EXPECT_THAT(formatted("markdown", {{"a.json", report}}), HasSubstr("in place"));
}

TEST(CollectiveReport, IsNotValidWithoutAReasonForWhatIsMissing) {
  json document(to_json(comm_report()));
  document["collectives"][1].erase("wrong_reason");
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
  EXPECT_THROW(parse_report(document.dump(), "some.json"), ConfigError);
}

TEST(CollectiveReport, HasNoNegativeTimes) {
  json document(to_json(comm_report()));
  document["collectives"][0]["time_s"]["median"] = -1;
  EXPECT_FALSE(schema_errors(document, DDPBENCH_REPORT_SCHEMA).empty());
  EXPECT_THROW(parse_report(document.dump(), "some.json"), ConfigError);
}

TEST(CollectiveReport, RefusesWrongTypesWithTheirPlace) {
  json document(to_json(comm_report()));
  document["collectives"][0]["mode"] = "fibre";
  try {
    parse_report(document.dump(), "some.json");
    FAIL() << "it was read";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("some.json"), HasSubstr("/collectives/0/mode")));
  }
}

TEST(CollectiveReport, OfRunsHasNoCollectives) {
  EXPECT_FALSE(to_json(test::sample_report()).contains("collectives"));
}

TEST(CollectiveTable, ShowsARowACollectiveWithReasonsBelow) {
  const std::string text = render_table(comm_report(), 0);
  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce"), HasSubstr("4 MiB"), HasSubstr("1048576"),
                          HasSubstr("2000.00"), HasSubstr("50.0")));
  EXPECT_THAT(text, AllOf(HasSubstr("2*"), HasSubstr("oversubscribed"),
                          HasSubstr("(1) a barrier moves no data"), Not(HasSubstr("no runs"))));
  EXPECT_THAT(text, AllOf(HasSubstr("(1000.00)"), Not(HasSubstr("(("))));
}

TEST(CollectiveTable, NamesTheGpuAndItsLateIterations) {
  const std::string text = render_table(gpu_report(), 0);
  EXPECT_THAT(text,
              AllOf(HasSubstr("threads on Imaginary GPU"), HasSubstr("more ranks than GPUs")));
  EXPECT_THAT(text, AllOf(HasSubstr("1 iteration waited for the host to queue them\n"),
                          HasSubstr("GPU 0"), HasSubstr("1975.20"), Not(HasSubstr("reduce GB/s"))));
}

TEST(CollectiveTable, KeepsToTheWidth) {
  std::istringstream lines(render_table(comm_report(), 60));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

}  // namespace
}  // namespace ddpbench::report
