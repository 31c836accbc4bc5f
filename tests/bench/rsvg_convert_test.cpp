// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The real rsvg-convert, where it is installed, makes PNG and PDF of every kind of picture.
#include "bench/commands/subcommand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>

#include "base/error.h"
#include "bench/commands/subcommand.h"
#include "reports/charts/chart_data.h"
#include "reports/json/report_json.h"
#include "reports/pictures/picture.h"
#include "tests/bench/fake_program.h"
#include "tests/bench/options_test_support.h"
#include "tests/reports/run_charts.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool has_rsvg_convert() {
  return std::system("rsvg-convert --version >/dev/null 2>&1") == 0;  // NOLINT: a fixed command
}

#define SKIP_WITHOUT_RSVG_CONVERT() \
  if (!has_rsvg_convert()) GTEST_SKIP() << "rsvg-convert is not installed"

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

constexpr const char* kSmall =
    R"(<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"></svg>)";

// Reads a number of four bytes, as PNG has it.
unsigned number_at(const std::string& bytes, std::size_t at) {
  unsigned value = 0;
  for (std::size_t i = at; i < at + 4; ++i) value = value << 8 | (bytes.at(i) & 0xFFU);
  return value;
}

template <typename ErrorType>
std::string failure(const std::string& svg) {
  return message_of<ErrorType>([&] { rsvg_convert(svg, "png", 1); });
}

TEST(RsvgConvert, DrawsTwoPixelsForEachUnit) {
  SKIP_WITHOUT_RSVG_CONVERT();
  const std::string png = rsvg_convert(kSmall, "png", 2);
  EXPECT_THAT(png, StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(number_at(png, 16), 60U) << "width";
  EXPECT_EQ(number_at(png, 20), 40U) << "height";
  EXPECT_THAT(rsvg_convert(kSmall, "pdf", 1), StartsWith("%PDF-"));
}

TEST(RsvgConvert, QuotesComplaints) {
  SKIP_WITHOUT_RSVG_CONVERT();
  EXPECT_THAT(failure<InternalError>("nonsense of a kind\n"),
              AllOf(HasSubstr("drew no picture (exit code 1)"), HasSubstr("rror")));
}

TEST(RsvgConvert, SaysHowToInstallItWhereItIsAbsent) {
  const TemporaryDirectory empty;
  const Path path(empty.path());
  EXPECT_THAT(failure<UnavailableError>(kSmall),
              AllOf(HasSubstr("rsvg-convert"), HasSubstr("apt install librsvg2-bin"),
                    HasSubstr(".svg, which needs nothing")));
}

TEST(RsvgConvert, TakesNoPictureForAFailure) {
  const FakeProgram fake("rsvg-convert", "exit 0\n");
  EXPECT_THAT(failure<InternalError>(kSmall), HasSubstr("drew no picture"));
}

TEST(RsvgConvert, NamesTheSignalThatEndedIt) {
  const FakeProgram fake("rsvg-convert", "kill -9 $$\n");
  EXPECT_THAT(failure<InternalError>(kSmall), HasSubstr("signal 9"));
}

TEST(RsvgConvert, SurvivesOneThatDoesNotReadItsInput) {
  const FakeProgram fake("rsvg-convert", "echo sorry >&2\nexit 3\n");
  EXPECT_THAT(failure<InternalError>(std::string(8'000'000, '#')),
              AllOf(HasSubstr("exit code 3"), HasSubstr("sorry")));
}

TEST(RsvgConvert, CarriesLargePicturesWhole) {
  const FakeProgram fake("rsvg-convert", "cat\n");
  const std::string large(3'000'000, '#');
  EXPECT_EQ(rsvg_convert(large, "pdf", 1), large);
}

// ---- `ddpbench chart -o` ----

class ChartFiles : public ::testing::TestWithParam<const char*> {
 protected:
  std::string report(const report::Report& what) const {
    std::string path = directory_.path() + "/report.json";
    write_report(what, path, true);
    return path;
  }
  std::string file(const char* extension) const { return directory_.path() + "/a" + extension; }
  int chart(const std::string& report, const std::string& output,
            const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {report, "--kind", GetParam(), "-o", output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ::testing::internal::CaptureStdout();
    const int code = run_subcommand(chart_entry(), arguments);
    EXPECT_EQ(::testing::internal::GetCapturedStdout(), "chart: " + output + "\n");
    return code;
  }
  TemporaryDirectory directory_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, ChartFiles, ::testing::ValuesIn(report::test::kRunChartKinds),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(ChartFiles, HaveTheFormatOfTheirExtension) {
  SKIP_WITHOUT_RSVG_CONVERT();
  const std::string sample = report(report::test::sample_report());
  EXPECT_EQ(chart(sample, file(".png")), 0);
  EXPECT_THAT(read_file(file(".png")), StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(chart(sample, file(".PDF")), 0);
  EXPECT_THAT(read_file(file(".PDF")), StartsWith("%PDF-"));
}

TEST_P(ChartFiles, HaveTheSizeThatIsAskedForInPixels) {
  SKIP_WITHOUT_RSVG_CONVERT();
  const std::string sample = report(report::test::sample_report());
  EXPECT_EQ(chart(sample, file(".png"), {"--size=700x1100"}), 0);
  // PNG: width and height follow the name of the first chunk, most significant byte first.
  EXPECT_EQ(read_file(file(".png")).substr(16, 8), std::string("\0\0\x02\xBC\0\0\x04\x4C", 8));
}

TEST_P(ChartFiles, NeedNothingAsSvg) {
  const TemporaryDirectory empty;
  const Path path(empty.path());
  EXPECT_EQ(chart(report(report::test::sample_report()), file(".svg")), 0);
  EXPECT_THAT(read_file(file(".svg")), StartsWith("<?xml"));
}

TEST_P(ChartFiles, AreNotBegunWithoutTheConverter) {
  const TemporaryDirectory empty;
  const Path path(empty.path());
  const std::string sample = report(report::test::sample_report());
  for (const char* extension : {".png", ".pdf"}) {
    EXPECT_THAT(message_of<UnavailableError>([&] { chart(sample, file(extension)); }),
                HasSubstr("apt install librsvg2-bin"));
    ::testing::internal::GetCapturedStdout();
    EXPECT_FALSE(fs::exists(file(extension)));
  }
}

TEST_P(ChartFiles, AreReplacedOnlyWithForce) {
  const std::string sample = report(report::test::sample_report());
  const std::string there = directory_.write("a.svg", "mine");
  EXPECT_THAT(message_of<ConfigError>([&] {
                run_subcommand(chart_entry(), {sample, "-o", there});
              }),
              HasSubstr("--force"));
  EXPECT_EQ(read_file(there), "mine");
  EXPECT_EQ(chart(sample, there, {"--force"}), 0);
  EXPECT_THAT(read_file(there), HasSubstr("<svg"));
}

TEST(RsvgConvert, DrawsHostileReportsAsOnlyPictures) {
  SKIP_WITHOUT_RSVG_CONVERT();
  const TemporaryDirectory directory;
  const report::Report hostile = report::test::hostile_report();
  const std::string svg = picture_file(report::pictures::scaling_picture(
      report::scaling_chart(std::span<const report::Report>(&hostile, 1)),
      report::pictures::Medium::file));
  const fs::path before = fs::current_path();
  fs::current_path(directory.path());
  EXPECT_NO_THROW({
    EXPECT_THAT(rsvg_convert(svg, "png", 1), StartsWith("\x89PNG"));
    EXPECT_THAT(rsvg_convert(svg, "pdf", 1), StartsWith("%PDF-"));
  });
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(fs::path(directory.path()) / "EVIL"));
}

}  // namespace
}  // namespace ddpbench::bench
