// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls `ddpbench chart` as a user does; rsvg_convert_test.cpp tests the files that it writes.
#include "bench/commands/subcommand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using report::Report;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ChartCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const Report& report) const {
    std::string path = directory_.path() + "/" + name;
    write_report(report, path, false);
    EXPECT_THAT(ddpbench::test::schema_errors(to_json(report), DDPBENCH_REPORT_SCHEMA),
                ::testing::IsEmpty());
    return path;
  }
  // Returns what the command prints.
  static std::string chart(const std::vector<std::string>& arguments) {
    ::testing::internal::CaptureStdout();
    const int code = run_subcommand(chart_entry(), arguments);
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, 0);
    return text;
  }
  static std::string refused(const std::vector<std::string>& arguments) {
    return message_of<ConfigError>([&] { run_subcommand(chart_entry(), arguments); });
  }

  TemporaryDirectory directory_;
  std::string sample_ = write("sample.json", report::test::sample_report());
};

TEST_F(ChartCommand, DrawsTheChosenRunsOnly) {
  const std::string all = chart({sample_, "--kind=memory"});
  const std::string some = chart({sample_, "--kind=memory", "--strategy=ddp"});
  EXPECT_THAT(all, HasSubstr("dp on"));
  EXPECT_THAT(some, HasSubstr("ddp"));
  EXPECT_LT(some.size(), all.size());
  EXPECT_THAT(refused({sample_, "--strategy=dpp"}),
              HasSubstr("chart: --strategy: expected one of"));
  EXPECT_THAT(refused({sample_, "--strategy=single", "--gpus=2"}),
              HasSubstr("chart: no run is left"));
}

TEST_F(ChartCommand, DrawsEveryKindInTheTerminal) {
  EXPECT_THAT(chart({sample_}), HasSubstr("Scaling: simple_cnn on mnist"));
  EXPECT_THAT(chart({sample_, "--kind=breakdown"}), HasSubstr("exposed communication"));
  EXPECT_THAT(chart({sample_, "--kind=memory"}), HasSubstr("primary"));
  EXPECT_THAT(chart({sample_, "--kind", "steps"}), HasSubstr("median 20.00 ms"));
  EXPECT_THAT(chart({sample_, "--kind=buckets"}), HasSubstr("rank 1 bucket 0"));
}

TEST_F(ChartCommand, PutsSeveralReportsIntoOneChart) {
  Report other = report::test::sample_report();
  other.environment.cpu.model = "Fabled 1";
  EXPECT_THAT(chart({sample_, write("other.json", other)}),
              AllOf(HasSubstr("different machines"), HasSubstr("machine B")));
}

TEST_F(ChartCommand, NamesTheNearestKind) {
  EXPECT_THAT(refused({sample_, "--kind=scalling"}),
              AllOf(HasSubstr("--kind: expected one of"), HasSubstr("Did you mean 'scaling'?")));
}

TEST_F(ChartCommand, RefusesPicturesThatItCannotDraw) {
  EXPECT_THAT(refused({sample_, "-o", directory_.path() + "/a.jpg"}),
              HasSubstr("must end in .svg, .png or .pdf"));
}

TEST_F(ChartCommand, RefusesToReplaceAFileBeforeItReadsReports) {
  const std::string there = directory_.write("a.svg", "mine");
  EXPECT_THAT(refused({directory_.path() + "/absent.json", "-o", there}),
              AllOf(HasSubstr("a.svg"), HasSubstr("--force")));
}

TEST_F(ChartCommand, SaysWhyThereIsNothingToDraw) {
  Report report = report::test::sample_report();
  report.runs.resize(2);
  const std::string path = write("few.json", report);
  EXPECT_THAT(refused({path, "--kind=buckets"}),
              AllOf(HasSubstr("few.json"), HasSubstr("dp on 2 (no buckets were recorded)")));
}

TEST_F(ChartCommand, LeavesNoFileWhenThereIsNothingToDraw) {
  Report report = report::test::sample_report();
  report.runs.clear();
  refused({write("none.json", report), "-o", directory_.path() + "/none.svg"});
  EXPECT_FALSE(fs::exists(directory_.path() + "/none.svg"));
}

TEST_F(ChartCommand, SendsCollectivesToShow) {
  Report report = report::test::sample_report();
  report.runs.clear();
  report.collectives.emplace_back();
  report.collectives[0].wrong_reason = "not checked";
  report.collectives[0].mode = "process";
  const std::string path = directory_.path() + "/comm.json";
  write_report(report, path, false);
  EXPECT_THAT(refused({path}), AllOf(HasSubstr("comm.json holds collectives"),
                                     HasSubstr("`ddpbench show` displays them")));
}

TEST_F(ChartCommand, TakesExtensionsInCapitals) {
  const std::string present = directory_.path() + "/A.SVG";
  std::ofstream(present) << "mine";
  EXPECT_THAT(refused({sample_, "-o", present}), AllOf(HasSubstr("A.SVG"), HasSubstr("--force")));
}

}  // namespace
}  // namespace ddpbench::bench
