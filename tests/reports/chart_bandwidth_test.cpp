// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The chart of collectives: its numbers, its names and its picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/charts/chart_data.h"
#include "reports/html/page.h"
#include "reports/pictures/picture.h"
#include "tests/reports/gate_support.h"

namespace ddpbench::report {
namespace {

using pictures::Medium;
using pictures::Panel;
using pictures::Picture;
using test::collective_report;
using test::collective_row;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

BandwidthChart chart_of(const Report& report) { return bandwidth_chart({&report, 1}); }

std::vector<std::string> lines_of(const BandwidthChart& chart) {
  std::vector<std::string> names;
  for (const ChartSeries& series : chart.series) names.push_back(series.name);
  return names;
}

// Two operations between 2 and 4 ranks; all_reduce by two algorithms.
Report sweep() {
  Report report = collective_report(1e-3, {});
  for (const int ranks : {2, 4}) {
    for (const char* algorithm : {"ring", "direct"}) {
      for (const std::uint64_t bytes : {1 << 20, 1 << 22}) {
        CollectiveRow row = collective_row(1e-3 * ranks, bytes);
        row.ranks = ranks;
        row.all_reduce = algorithm;
        report.collectives.push_back(row);
      }
    }
    CollectiveRow row = collective_row(1e-3, 1 << 20);
    row.operation = "broadcast";
    row.reduction.clear();
    row.ranks = ranks;
    report.collectives.push_back(row);
  }
  return report;
}

TEST(BandwidthChart, HasAPointForEachSizeWithItsBound) {
  const BandwidthChart chart = chart_of(collective_report(1e-3, {1 << 20, 4096}));
  EXPECT_THAT(chart.operations, ElementsAre("all_reduce"));
  EXPECT_THAT(lines_of(chart), ElementsAre("2 ranks"));
  ASSERT_THAT(chart.points, SizeIs(2));
  EXPECT_EQ(chart.points[0].bytes, 4096U) << "by size";
  EXPECT_DOUBLE_EQ(chart.points[1].gb_per_s.median, 1.048576);
  EXPECT_EQ(chart.points[1].bound_gb_per_s, 8);
  EXPECT_EQ(chart.caption.title, "Bus bandwidth: all_reduce, shm, processes, fp32");
}

TEST(BandwidthChart, NamesLinesByWhatDiffersWithinAnOperation) {
  const BandwidthChart chart = chart_of(sweep());
  EXPECT_THAT(chart.operations, ElementsAre("all_reduce", "broadcast"));
  EXPECT_THAT(lines_of(chart), ElementsAre("2 ranks, ring", "2 ranks, direct", "2 ranks",
                                           "4 ranks, ring", "4 ranks, direct", "4 ranks"));
}

TEST(BandwidthChart, NamesAnEmulatedLink) {
  Report report = collective_report(1e-3, {1 << 20, 4096});
  report.collectives[1].emulated_link = "1Gbit,50us";
  EXPECT_THAT(lines_of(chart_of(report)), Contains("2 ranks, emulated link 1Gbit,50us"));
}

TEST(BandwidthChart, TakesEqualRowsOfSeveralReportsForRepetitions) {
  const std::vector<Report> reports = test::collective_reports({1e-3, 2e-3, 4e-3});
  const BandwidthChart chart = bandwidth_chart(reports);
  ASSERT_THAT(chart.points, SizeIs(1));
  EXPECT_EQ(chart.points[0].gb_per_s.count, 3);
  EXPECT_DOUBLE_EQ(chart.points[0].gb_per_s.median, 4096 / 2e-3 / 1e9);
  EXPECT_THAT(chart.caption.notes, Contains(HasSubstr("median of 3 repetitions")));
}

TEST(BandwidthChart, TellsMachinesApart) {
  std::vector<Report> reports = test::collective_reports({1e-3, 2e-3});
  reports[1].environment.hosts = {"other"};
  EXPECT_THAT(lines_of(bandwidth_chart(reports)),
              ElementsAre("2 ranks, machine A", "2 ranks, machine B"));
  EXPECT_THAT(bandwidth_chart(reports).caption.subtitle, HasSubstr("different machines: A:"));
}

TEST(BandwidthChart, NamesWhatItLeavesOut) {
  Report report = collective_report(1e-3, {4096, 8192, 16384});
  report.collectives[0].wrong = 2;
  report.collectives[1].operation = "barrier";
  report.collectives[1].bytes = 0;
  report.collectives[1].busbw_gb_per_s = Figure::missing("a barrier moves no data");
  const BandwidthChart chart = chart_of(report);
  EXPECT_THAT(chart.points, SizeIs(1));
  EXPECT_THAT(chart.caption.notes,
              Contains("left out: all_reduce of 4 KiB between 2 ranks (its results were wrong); "
                       "barrier between 2 ranks (a barrier moves no data)"));
  report.collectives.resize(2);
  EXPECT_THAT(chart_of(report).empty_reason, HasSubstr("its results were wrong"));
  EXPECT_EQ(chart_of(test::gate_report({})).empty_reason, "there are no collectives");
}

TEST(BandwidthPicture, HasAPanelForEachCollectiveWithTheSameAxes) {
  const Picture picture = bandwidth_picture(chart_of(sweep()), Medium::file);
  ASSERT_THAT(picture.panels, SizeIs(2));
  const auto ticks = [](const std::string& shapes) {
    std::vector<std::string> found;
    for (auto at = shapes.find("class=\"tick\">"); at != std::string::npos;
         at = shapes.find("class=\"tick\">", at + 1)) {
      found.push_back(shapes.substr(at, shapes.find('<', at) - at));
    }
    return found;
  };
  EXPECT_THAT(ticks(picture.panels[0].shapes), Contains(HasSubstr("1 MiB")));
  EXPECT_EQ(ticks(picture.panels[0].shapes), ticks(picture.panels[1].shapes));
  for (const Panel& panel : picture.panels) {
    EXPECT_THAT(panel.shapes, AllOf(HasSubstr("class=\"bound\""), HasSubstr("of the bound of")));
  }
  EXPECT_EQ(picture.legend.back().name, "bound");
  EXPECT_EQ(picture.legend[0].classes, "s2");
  EXPECT_THAT(picture_file(picture), HasSubstr(">broadcast</text>"));
}

TEST(BandwidthPicture, HasTheSizeThatIsAskedFor) {
  const BandwidthChart chart = chart_of(sweep());
  const auto make = [&](const Medium& medium) { return bandwidth_picture(chart, medium); };
  EXPECT_THAT(pictures::picture_file(make, {400, 900}), HasSubstr("width=\"400\" height=\"900\""));
}

TEST(BandwidthPage, ShowsThePicture) {
  const std::string page = html_page({{"comm.json"}, {sweep()}, {}});
  EXPECT_THAT(page, AllOf(HasSubstr("id=\"bandwidth\""), HasSubstr("svg-bandwidth-1")));
  EXPECT_THAT(page, HasSubstr("10 collectives measured, without a wrong element."));
  Report wrong = sweep();
  wrong.collectives[0].wrong = 1;
  EXPECT_THAT(html_page({{"comm.json"}, {wrong}, {}}),
              HasSubstr("1 of 10 collectives gave wrong results"));
}

}  // namespace
}  // namespace ddpbench::report
