// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench html` as a user calls it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "reports/data/report.h"
#include "reports/json/report_json.h"
#include "tests/bench/program.h"
#include "tests/reports/sample_report.h"

namespace ddpbench {
namespace {

using test::Program;
using test::ProgramResult;
using testing::HasSubstr;
using testing::StartsWith;

class HtmlCommand : public testing::Test {
 protected:
  HtmlCommand() {
    report::write_report(report::test::sample_report(), program.path("a.json"), false);
    report::write_report(report::test::sample_report(), program.path("b.json"), false);
  }
  // Checks the output of `html` with these arguments; no file may appear in the folder.
  void expect_refusal(std::vector<std::string> arguments, const std::string& message) {
    const std::size_t before = files();
    arguments.insert(arguments.begin(), "html");
    const ProgramResult result = program.run(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_EQ(files(), before);
  }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(program.directory());
    return static_cast<std::size_t>(
        std::count_if(begin(all), end(all), [](const std::filesystem::directory_entry& entry) {
          const std::string name = entry.path().extension();
          return name == ".html" || name == ".json" || name == ".tmp";
        }));
  }
  Program program;
};

TEST_F(HtmlCommand, WritesAPageAndSaysWhere) {
  const ProgramResult result = program.run({"html", "a.json", "-o", "page.html"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "page: page.html\n");
  EXPECT_THAT(program.read("page.html"), StartsWith("<!DOCTYPE html>"));
}

TEST_F(HtmlCommand, NamesTheFastestThatFitsTheMemoryOfADevice) {
  program.run({"html", "a.json", "--memory-per-device=16MiB"});
  EXPECT_THAT(program.read("a.html"),
              HasSubstr("<p class=\"lead\">No exact run fits 16 MiB (the least takes 40 MiB: dp "
                        "on 2 devices).</p>"));
}

TEST_F(HtmlCommand, IsCalledLikeTheFirstReport) {
  EXPECT_EQ(program.run({"html", "a.json", "b.json"}).out, "page: a.html\n");
  const std::string page = program.read("a.html");
  EXPECT_THAT(page, HasSubstr("<h3>a.json</h3>"));
  EXPECT_THAT(page, HasSubstr("<h3>b.json</h3>"));
}

TEST_F(HtmlCommand, OverwritesWithForceOnly) {
  program.write("a.html", "mine");
  expect_refusal({"a.json"}, "a.html");
  EXPECT_EQ(program.read("a.html"), "mine");
  EXPECT_EQ(program.run({"html", "a.json", "--force"}).exit_code, 0);
  EXPECT_THAT(program.read("a.html"), StartsWith("<!DOCTYPE html>"));
}

TEST_F(HtmlCommand, NeverReplacesAReport) {
  const std::string before = program.read("b.json");
  expect_refusal({"a.json", "b.json", "-o", "b.json", "--force"},
                 "html: b.json: that is one of the reports");
  EXPECT_EQ(program.read("b.json"), before);
}

TEST_F(HtmlCommand, RefusesWhatItCannotRead) {
  program.write("cut.json", program.read("a.json").substr(0, 500));
  expect_refusal({}, "REPORT");
  expect_refusal({"absent.json"}, "absent.json");
  expect_refusal({"a.json", "cut.json"}, "cut.json");
  expect_refusal({"a.json", "--baseline", "absent.json"}, "absent.json");
  expect_refusal({"a.json", "-o", "no/folder/page.html"}, "no/folder/page.html");
  expect_refusal({"a.json", "--outptu=x.html"}, "Did you mean '--output'?");
}

TEST_F(HtmlCommand, TellsWhatTheGateSaysAndStillEndsWell) {
  program.write("other.json", program.read("b.json") + "\n");  // a copy would be refused
  const ProgramResult result = program.run({"html", "a.json", "--baseline", "other.json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(program.read("a.html"), HasSubstr("Against the baseline"));
}

TEST_F(HtmlCommand, WritesNoPageWhereTheBaselineCannotBeRead) {
  program.write("a.html", "of an earlier comparison");
  const ProgramResult result =
      program.run({"html", "a.json", "--baseline", "absent.json", "--force"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("absent.json"));
  EXPECT_EQ(program.read("a.html"), "of an earlier comparison");
}

TEST_F(HtmlCommand, CountsNoReportTwiceAgainstABaseline) {
  expect_refusal({"a.json", "a.json", "--baseline", "b.json"},
                 "a.json or a copy of it is given twice");
  expect_refusal({"a.json", "--baseline", "b.json", "-o", "b.json", "--force"},
                 "html: b.json: that is one of the reports");
}

}  // namespace
}  // namespace ddpbench
