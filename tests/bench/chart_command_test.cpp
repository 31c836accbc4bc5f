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
#include "tests/reports/gate_support.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/schema_validator.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using report::Report;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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

// A run that was killed in its first repetition leaves nothing to draw, but can go on.
TEST_F(ChartCommand, TellsHowToGoOnWithAnInterruptedReportThatHasNothingToDraw) {
  Report report = report::test::report_of({});
  report.status = report::Status::interrupted;
  report.argv = {"./ddpbench", "--strategy=ddp", "--json=a.json"};
  const std::string empty = write("empty.json", report);
  const std::string message = refused({empty});
  EXPECT_THAT(message, AllOf(HasSubstr("there are no runs\n"), HasSubstr("was interrupted: "),
                             HasSubstr("--resume=" + empty)));
  EXPECT_FALSE(message.ends_with('\n'));
  report.runs = {report::test::sample_run("ddp", 2, 5000)};
  report.runs[0].status = report::Status::interrupted;
  EXPECT_THAT(refused({write("begun.json", report)}),
              AllOf(HasSubstr("left out: ddp on 2 (interrupted)\n"), HasSubstr(" --resume=")));
  report.status = report::Status::ok;
  report.runs.clear();
  EXPECT_THAT(refused({write("none.json", report)}), Not(HasSubstr("\n")));
}

TEST_F(ChartCommand, DrawsTheChosenRunsOnly) {
  const std::string all = chart({sample_});
  const std::string some = chart({sample_, "--strategy=ddp"});
  EXPECT_THAT(all, HasSubstr("\ndp\n"));
  EXPECT_THAT(some, HasSubstr("ddp"));
  EXPECT_LT(some.size(), all.size());
  EXPECT_THAT(refused({sample_, "--strategy=dpp"}),
              HasSubstr("chart: --strategy: expected one of"));
  EXPECT_THAT(refused({sample_, "--strategy=single", "--gpus=2"}),
              HasSubstr("chart: no run is left"));
}

TEST_F(ChartCommand, DrawsTheScalingAloneInTheTerminal) {
  EXPECT_THAT(chart({sample_}), HasSubstr("Scaling: simple_cnn on mnist"));
  for (const char* kind : {"breakdown", "memory", "steps", "buckets"}) {
    const std::string option = std::string("--kind=") + kind;
    EXPECT_THAT(refused({sample_, option}), HasSubstr(option + " is drawn in a file: -o FILE"));
    chart({sample_, option, "-o", directory_.path() + "/" + kind + ".svg"});
  }
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

TEST_F(ChartCommand, DrawsTheBandwidthOfCollectives) {
  const std::string path =
      write("comm.json", report::test::collective_report(1e-3, {1 << 20, 2 << 20}));
  EXPECT_THAT(refused({path, "--op=all_reduse"}), HasSubstr("Did you mean 'all_reduce'?"));
  EXPECT_THAT(refused({path, "--ranks=3"}), HasSubstr("chart: --ranks: expected one of"));
  EXPECT_THAT(refused({path, "--strategy=ddp"}), HasSubstr("--strategy: there is none, got"));
  EXPECT_THAT(refused({sample_, "--op=all_reduce"}), HasSubstr("--op: there is none, got"));
  const std::string picture = directory_.path() + "/comm.svg";
  chart({path, "--op=all_reduce", "--ranks=2", "-o", picture});
  EXPECT_THAT(file_text(picture),
              AllOf(HasSubstr("Bus bandwidth: all_reduce, shm, processes, fp32"),
                    HasSubstr("class=\"bound\"")));
}

TEST_F(ChartCommand, DrawsCollectivesAndRunsApart) {
  const std::string path = write("comm.json", report::test::collective_report(1e-3));
  EXPECT_THAT(refused({path, "--kind=steps"}),
              AllOf(HasSubstr("comm.json holds collectives"), HasSubstr("--kind=bandwidth draws")));
  EXPECT_THAT(refused({path, sample_}), HasSubstr("comm.json holds collectives"));
  EXPECT_THAT(refused({sample_, "--kind=bandwidth"}),
              HasSubstr("sample.json holds no collectives"));
}

TEST_F(ChartCommand, DrawsTheStalenessOfPushes) {
  Report report = report::test::sample_report();
  EXPECT_THAT(refused({sample_, "--kind=staleness"}), HasSubstr("do not apply pushes one by one"));
  report.runs[2].pushes = report::PushSection{.pushes_by_staleness = {{"0", 1}, {"1", 3}}};
  const std::string picture = directory_.path() + "/stale.svg";
  chart({write("stale.json", report), "--kind=staleness", "-o", picture});
  EXPECT_THAT(file_text(picture), HasSubstr("Staleness"));
}

TEST_F(ChartCommand, TakesATitle) {
  const std::string text = chart({sample_, "--title=Figure 3: throughput"});
  EXPECT_THAT(text, ::testing::StartsWith("Figure 3: throughput\n"));
  const std::string picture = directory_.path() + "/a.svg";
  chart({sample_, "--title=<b> & ü", "-o", picture});
  EXPECT_THAT(file_text(picture), AllOf(HasSubstr(">&lt;b&gt; &amp; ü</text>"),
                                        HasSubstr("<title id=\"title\">&lt;b&gt; &amp; ü<"),
                                        HasSubstr("Imaginary 9000")));
}

TEST_F(ChartCommand, LeavesOutTheNotesAndPrintsThem) {
  const std::string picture = directory_.path() + "/a.svg";
  const std::string said = chart({sample_, "--no-notes", "-o", picture});
  const std::string svg = file_text(picture);
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("class=\"note\"")), Not(HasSubstr("Imaginary 9000"))));
  EXPECT_THAT(said, AllOf(HasSubstr("not in the picture: Imaginary 9000"),
                          HasSubstr("- left out: ddp on 4 (failed: killed by SIGKILL)"),
                          HasSubstr("chart: " + picture)));
  EXPECT_THAT(chart({sample_, "--no-notes"}),
              AllOf(HasSubstr("Scaling: simple_cnn"), Not(HasSubstr("left out"))));
}

TEST_F(ChartCommand, TakesTheSizeOfAPicture) {
  const std::string picture = directory_.path() + "/a.svg";
  chart({sample_, "--size=640x600", "--no-notes", "-o", picture});
  EXPECT_THAT(file_text(picture), HasSubstr("width=\"640\" height=\"600\""));
  const std::string other = directory_.path() + "/b.svg";
  for (const char* wrong : {"640", "640,480", "640x", "x480", "0x480", "640x48000", "-640x480",
                            "640x480px", "6e2x480", "640X480"}) {
    EXPECT_THAT(refused({sample_, std::string("--size=") + wrong, "-o", other}),
                AllOf(HasSubstr(std::string("--size=") + wrong),
                      HasSubstr("WIDTHxHEIGHT in pixels, 200 to 10000 each")));
  }
  EXPECT_THAT(refused({sample_, "--size=640x480"}), HasSubstr("needs -o FILE"));
  EXPECT_THAT(refused({sample_, "--kind=breakdown", "--size=640x200", "-o", other}),
              HasSubstr("--size=640x200 is too low: at this width the picture needs a height"
                        " of "));
  EXPECT_FALSE(fs::exists(other));
}

TEST_F(ChartCommand, TakesExtensionsInCapitals) {
  const std::string present = directory_.path() + "/A.SVG";
  std::ofstream(present) << "mine";
  EXPECT_THAT(refused({sample_, "-o", present}), AllOf(HasSubstr("A.SVG"), HasSubstr("--force")));
}

}  // namespace
}  // namespace ddpbench::bench
