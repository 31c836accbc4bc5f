// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Characters that no font has, and the warning of `ddpbench chart`.
#include "bench/commands/font_coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/commands/subcommand.h"
#include "reports/json/report_json.h"
#include "tests/bench/fake_program.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Two fonts: Latin with some signs, and a few Chinese characters.
constexpr const char* kTwoFonts = "printf '20-7e a0-24f 2013-2026\\n4e00-5000 6f22\\n'\n";

TEST(FontCoverage, NamesWhatNoFontHasOnce) {
  const FakeProgram fonts("fc-list", kTwoFonts);
  EXPECT_THAT(characters_without_font("plain"), IsEmpty());
  EXPECT_THAT(characters_without_font("d\u00e9bit \u2014 \u6f22 \u4e2d"), IsEmpty());
  EXPECT_THAT(characters_without_font("\u6f22\u5b57 \U0001F680 \u5b57"),
              ElementsAre("\u5b57", "\U0001F680"));
  // The selector of the coloured variant draws nothing itself.
  EXPECT_THAT(characters_without_font("\u2014\ufe0f"), IsEmpty());
  // Bytes that are no text.
  EXPECT_THAT(characters_without_font("\xff\x80 \xe6\xbc"), IsEmpty());
}

TEST(FontCoverage, KnowsNothingWithoutTheList) {
  {
    const FakeProgram fonts("fc-list", "exit 1\n");
    EXPECT_THAT(characters_without_font("\u5b57"), IsEmpty());
  }
  const TemporaryDirectory empty;
  const Path path(empty.path());
  EXPECT_THAT(characters_without_font("\u5b57"), IsEmpty());
}

class ChartTitle : public ::testing::Test {
 protected:
  ChartTitle() { report::write_report(report::test::sample_report(), report_, true); }
  // Returns what is said on stderr.
  std::string draw(const std::string& title, const std::string& extension) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_subcommand(chart_entry(), {report_, "-o", directory_.path() + "/a" + extension,
                                             "--force", "--title", title}),
              0);
    ::testing::internal::GetCapturedStdout();
    return ::testing::internal::GetCapturedStderr();
  }
  TemporaryDirectory directory_;
  std::string report_ = directory_.path() + "/report.json";
  FakeProgram converter_{"rsvg-convert", "cat\n"}, fonts_{"fc-list", kTwoFonts};
};

TEST_F(ChartTitle, WarnsOfBoxesInPicturesThatFontsOfThisMachineDraw) {
  const std::string title = "\u6f22\u5b57 on two sockets";
  for (const char* extension : {".png", ".pdf"}) {
    EXPECT_THAT(draw(title, extension),
                AllOf(HasSubstr("warning: no font of this machine has "), HasSubstr("\u5b57"),
                      HasSubstr("fonts-noto-cjk"), Not(HasSubstr("\u6f22"))));
  }
  EXPECT_EQ(draw(title, ".svg"), "");
  EXPECT_EQ(draw("\u6f22 on two sockets", ".png"), "");
}

}  // namespace
}  // namespace ddpbench::bench
