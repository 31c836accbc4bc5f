// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Scripts for gnuplot: nothing that a report says becomes code. bench's tests run them.
#include "reports/charts/gnuplot_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/charts/gnuplot_picture.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GnuplotQuote, DoublesQuotesAndLeavesTheRestAlone) {
  EXPECT_EQ(gnuplot_quote("plain"), "'plain'");
  EXPECT_EQ(gnuplot_quote("it's"), "'it''s'");
  EXPECT_EQ(gnuplot_quote("'"), "''''");
  EXPECT_EQ(gnuplot_quote("`date` \"x\" \\n @a $b %d"), "'`date` \"x\" \\n @a $b %d'");
  EXPECT_EQ(gnuplot_quote(""), "''");
}

TEST(GnuplotQuote, LeavesNoControlCharacter) {
  EXPECT_EQ(gnuplot_quote("a\nb\rc\td\x1b[31m\x7f"), "'a b c d [31m '");
  EXPECT_EQ(gnuplot_quote(std::string_view("a\0b", 3)), "'a b'");
  EXPECT_EQ(gnuplot_quote("a\xC2\x85z"), "'a z'");  // next line, as C1 control
}

TEST(GnuplotQuote, LeavesNothingThatXmlRefuses) {
  EXPECT_EQ(gnuplot_quote("µ €"), "'µ €'");
  EXPECT_EQ(gnuplot_quote("a\xFFz\xC3"), "'a?z?'");
  EXPECT_EQ(gnuplot_quote("\xEF\xBF\xBF"), "' '");  // U+FFFF
  EXPECT_EQ(gnuplot_quote("\xED\xA0\x80"), "' '");  // a surrogate
  EXPECT_EQ(gnuplot_quote("\xC0\xA7"),
            "'?"
            "?'");  // ' in too many bytes
}

TEST(GnuplotQuote, ShortensEndlessNames) {
  EXPECT_EQ(gnuplot_quote(std::string(1000, 'x')), "'" + std::string(200, 'x') + "...'");
}

TEST(GnuplotTic, KeepsPercentFromBeingAFormat) {
  EXPECT_EQ(gnuplot_tic("50 % of 'x'"), "'50 %% of ''x'''");
}

// The script without what stands in single quotes.
std::string code_of(const std::string& script) {
  std::string code;
  bool quoted = false;
  for (const char c : script) {
    if (c == '\'') quoted = !quoted;  // a doubled quote closes and opens again
    if (!quoted) code += c;
    if (c == '\n') {
      EXPECT_FALSE(quoted) << "a string goes over the line's end";
    }
  }
  EXPECT_FALSE(quoted);
  return code;
}

std::vector<std::string> scripts_of(const Report& report, const PictureOptions& options) {
  const std::span<const Report> reports(&report, 1);
  return {gnuplot_script(scaling_chart(reports), options),
          breakdown_script(breakdown_chart(reports), options),
          memory_script(memory_chart(reports), options),
          gnuplot_script(steps_chart(reports), options),
          gnuplot_script(buckets_chart(reports), options)};
}

TEST(GnuplotScript, HoldsNoWordOfTheReportOutsideOfStrings) {
  for (const auto format : {PictureFormat::svg, PictureFormat::png, PictureFormat::pdf}) {
    PictureOptions options;
    options.format = format;
    options.id = "EVIL'; system('EVIL')";
    for (const std::string& script : scripts_of(test::hostile_report(), options)) {
      EXPECT_THAT(script, HasSubstr("EVIL"));
      EXPECT_THAT(code_of(script), Not(HasSubstr("EVIL")));
      EXPECT_THAT(code_of(script), Not(HasSubstr("`")));
      EXPECT_THAT(code_of(script), Not(HasSubstr("\"")));
    }
  }
}

TEST(GnuplotScript, SetsEveryTerminalToNoenhanced) {
  for (const auto& [format, word] :
       {std::pair(PictureFormat::svg, "svg"), std::pair(PictureFormat::png, "pngcairo"),
        std::pair(PictureFormat::pdf, "pdfcairo")}) {
    PictureOptions options;
    options.format = format;
    for (const std::string& script : scripts_of(test::sample_report(), options)) {
      EXPECT_THAT(script, HasSubstr(fmt::format("set terminal {} noenhanced", word)));
    }
  }
}

TEST(GnuplotScript, LeavesCaptionsToThePageThatAsksForIt) {
  PictureOptions options;
  options.captions = false;
  for (const std::string& script : scripts_of(test::sample_report(), options)) {
    EXPECT_THAT(script, Not(HasSubstr("simple_cnn on mnist")));
    EXPECT_THAT(script, Not(HasSubstr("left out")));
  }
}

TEST(GnuplotScript, HasABackgroundUnlessTransparencyIsAskedFor) {
  const Report report = test::sample_report();
  PictureOptions options;
  EXPECT_THAT(scripts_of(report, options)[0], HasSubstr("background rgb '#FFFFFF'"));
  options.transparent = true;
  EXPECT_THAT(scripts_of(report, options)[0], Not(HasSubstr("background")));
}

TEST(LineLook, NeighboursDifferInColourAndShape) {
  for (std::size_t style = 0; style < 24; ++style) {
    for (std::size_t other = style + 1; other < 24; ++other) {
      const LineLook a = line_look(style), b = line_look(other);
      EXPECT_TRUE(a.color != b.color || a.marker != b.marker) << style << ' ' << other;
    }
  }
}

}  // namespace
}  // namespace ddpbench::report
