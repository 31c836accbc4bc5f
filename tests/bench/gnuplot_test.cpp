// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The real gnuplot, where it is installed, draws every kind of chart in every format, and takes
// nothing in a report for code.
#include "bench/commands/gnuplot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "reports/charts/gnuplot_script.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using report::ChartKind;
using report::PictureFormat;
using report::PictureOptions;
using report::Report;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool has_gnuplot() {
  return std::system("gnuplot --version >/dev/null 2>&1") == 0;  // NOLINT: a fixed command
}

#define SKIP_WITHOUT_GNUPLOT() \
  if (!has_gnuplot()) GTEST_SKIP() << "gnuplot is not installed"

std::string script_of(const Report& report, ChartKind kind, const PictureOptions& options) {
  const std::span<const Report> reports(&report, 1);
  switch (kind) {
    case ChartKind::scaling:
      return gnuplot_script(scaling_chart(reports), options);
    case ChartKind::breakdown:
      return breakdown_script(breakdown_chart(reports), options);
    case ChartKind::memory:
      return memory_script(memory_chart(reports), options);
    case ChartKind::steps:
      return gnuplot_script(steps_chart(reports), options);
    case ChartKind::buckets:
      break;
  }
  return gnuplot_script(buckets_chart(reports), options);
}

// What Python's parser says of a document; empty when it is well-formed.
std::string xml_error(const TemporaryDirectory& directory, const std::string& text) {
  const std::string path = directory.write("picture.svg", text), said = directory.path() + "/said";
  const std::string command =
      "python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' " + path +
      " 2> " + said;
  if (std::system(command.c_str()) == 0) return {};  // NOLINT: a fixed command and our own path
  std::ifstream file(said);
  return "not well-formed: " + std::string(std::istreambuf_iterator<char>(file), {});
}

class GnuplotPictures : public ::testing::TestWithParam<ChartKind> {
 protected:
  void SetUp() override { SKIP_WITHOUT_GNUPLOT(); }

  std::string draw(const Report& report, PictureFormat format) const {
    PictureOptions options;
    options.format = format;
    return run_gnuplot(script_of(report, GetParam(), options));
  }
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, GnuplotPictures, ::testing::ValuesIn(report::kChartKinds),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(GnuplotPictures, AreDrawnInEveryFormatWithoutComplaint) {
  const Report report = report::test::sample_report();
  EXPECT_THAT(draw(report, PictureFormat::png), StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_THAT(draw(report, PictureFormat::pdf), StartsWith("%PDF-"));
  const std::string svg = draw(report, PictureFormat::svg);
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("simple_cnn on mnist"),
                         HasSubstr("Imaginary 9000"), HasSubstr("weak scaling")));
  EXPECT_EQ(xml_error(directory_, svg), "");
}

TEST_P(GnuplotPictures, TakeNothingInAReportForCode) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_.path());
  const Report report = report::test::hostile_report();
  std::string svg;
  EXPECT_NO_THROW({
    svg = draw(report, PictureFormat::svg);
    draw(report, PictureFormat::png);
    draw(report, PictureFormat::pdf);
  });
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(fs::path(directory_.path()) / "EVIL"));
  EXPECT_THAT(svg, HasSubstr("EVIL'; system('touch EVIL'); print `touch EVIL`"));
  EXPECT_THAT(svg, ::testing::Not(HasSubstr("<script")));
  EXPECT_EQ(xml_error(directory_, svg), "");
}

TEST_P(GnuplotPictures, AreDrawnOfASingleRunAndOfManyDevices) {
  Report report = report::test::sample_report();
  report::Run run = report.runs[2];
  run.step.samples_s = {0.5};
  report.runs = {run};
  EXPECT_THAT(draw(report, PictureFormat::png), StartsWith("\x89PNG"));
  for (const int devices : {8, 64, 4096}) {
    report.runs.push_back(run);
    report.runs.back().world_size = devices;
    report.runs.back().step.samples_s = {0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01, 9};
    report.runs.back().scaling.reset();
  }
  EXPECT_THAT(draw(report, PictureFormat::svg), HasSubstr("<svg"));
}

// PATH as long as this lives.
class Path {
 public:
  explicit Path(const std::string& value) : before_(std::getenv("PATH")) {
    ::setenv("PATH", value.c_str(), 1);
  }
  ~Path() { ::setenv("PATH", before_.c_str(), 1); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

 private:
  std::string before_;
};

template <typename ErrorType>
std::string failure(const std::string& script,
                    std::chrono::milliseconds deadline = kGnuplotDeadline) {
  return message_of<ErrorType>([&] { run_gnuplot(script, deadline); });
}

TEST(Gnuplot, SaysHowToInstallItWhereItIsAbsent) {
  const TemporaryDirectory empty;
  const Path path(empty.path());
  EXPECT_THAT(failure<UnavailableError>("print 1"),
              AllOf(HasSubstr("gnuplot"), HasSubstr("apt install gnuplot-nox")));
}

TEST(Gnuplot, QuotesItsComplaints) {
  SKIP_WITHOUT_GNUPLOT();
  EXPECT_THAT(failure<InternalError>("nonsense of a kind\n"), HasSubstr("invalid command"));
}

TEST(Gnuplot, DrawsNothingFromNothing) {
  SKIP_WITHOUT_GNUPLOT();
  EXPECT_THAT(failure<InternalError>(""), HasSubstr("drew no picture"));
}

TEST(Gnuplot, IsEndedAtTheDeadline) {
  SKIP_WITHOUT_GNUPLOT();
  EXPECT_THAT(failure<InternalError>("pause 600\n", std::chrono::milliseconds(200)),
              HasSubstr("was ended"));
}

TEST(Gnuplot, SurvivesOneThatDoesNotReadItsInput) {
  const TemporaryDirectory directory;
  const std::string fake = directory.write("gnuplot", "#!/bin/sh\necho sorry >&2\nexit 3\n");
  fs::permissions(fake, fs::perms::owner_all);
  const Path path(directory.path());
  EXPECT_THAT(failure<InternalError>(std::string(10'000'000, '#')),
              AllOf(HasSubstr("exit code 3"), HasSubstr("sorry")));
}

}  // namespace
}  // namespace ddpbench::bench
