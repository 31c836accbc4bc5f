// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddpbench {
namespace {

TEST(Text, CountsCodePointsAsColumns) {
  EXPECT_EQ(display_width(""), 0U);
  EXPECT_EQ(display_width("step"), 4U);
  EXPECT_EQ(display_width("\u00b5s \u2026"), 4U);
}

TEST(Text, PrintsNoControlCharacters) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f\u00b5"), "a [2Jb  \u00b5");
  EXPECT_EQ(printable("a\u009b2J\u00a0\u00e4"), "a 2J\u00a0\u00e4") << "C1";
  EXPECT_EQ(printable("\u202ea\u2066b\u2069\u200fc\u061cd\u2028e"), " a b  c d e") << "bidi";
  EXPECT_EQ(printable("\u2026\u4e2d\U0001f680"), "\u2026\u4e2d\U0001f680");
}

TEST(MessageOf, EscapesWhatWouldControlATerminalOrCI) {
  EXPECT_EQ(message_of("a\x1b[2J\u009b\u202e \u00b5\nb\n"),
            "a\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae \u00b5\nb\n");
  EXPECT_EQ(message_of("x\n::error::y"), "x\\x0a::error::y");
}

TEST(MessageOf, ShowsEightyCharactersOfAValue) {
  const std::string longest(80, 'x'), more(5000, 'x'),
      blanks = std::string(40, 'a') + std::string(200, ' ');
  for (const std::string& kept :
       {"--lr: got " + longest, "/" + longest + "/" + longest + ": no such file",
        "rank 0's store, the ranks' " + longest}) {
    EXPECT_EQ(message_of(kept), kept);
  }
  const std::string cut = std::string(26, 'x') + "\u2026" + std::string(53, 'x');
  EXPECT_EQ(message_of("--" + more + "=3, /a/" + more), "--" + cut.substr(2) + "=3, /a/" + cut);
  for (const char* const quote : {"'", "\""}) {
    const std::string message =
        message_of("no " + (quote + blanks) + "b" + quote + ": use another");
    EXPECT_EQ(display_width(message), 80 + std::string("no : use another").size()) << message;
  }
  EXPECT_LE(message_of(std::string(9000, ' ') + "x").size(), 4010U);
}

TEST(ShortList, HasTenNumbersAtMost) {
  EXPECT_EQ(short_list(std::vector{3}), "3");
  EXPECT_EQ(short_list(std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
            "1, 2, 3, 4, 5, 6, 7, 8, 9, 10");
  EXPECT_EQ(short_list(std::vector{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
            "1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others");
}

TEST(Text, CutsBetweenCharacters) {
  EXPECT_EQ(cut_at_character("abc", 3), "abc");
  EXPECT_EQ(cut_at_character("abc", 2), "ab");
  EXPECT_EQ(cut_at_character("a\u00b5c", 2), "a");
  EXPECT_EQ(cut_at_character("a\u00b5c", 3), "a\u00b5");
  EXPECT_EQ(cut_at_character("\x80\x80\x80", 2), "");
}

TEST(Counted, AddsAnSUnlessThereIsOne) {
  EXPECT_EQ(plural(1, "rank"), "rank");
  EXPECT_EQ(plural(0U, "rank"), "ranks");
  EXPECT_EQ(counted(1, "core"), "1 core");
  EXPECT_EQ(counted(std::string("1"), "core"), "1 core");
  EXPECT_EQ(counted(std::string("12"), "core"), "12 cores");
}

TEST(NumberIn, IsTheWholeTextOrNothing) {
  EXPECT_EQ(number_in<int>("12"), 12);
  EXPECT_EQ(number_in<int>("-3"), -3);
  EXPECT_EQ(number_in<double>("2.5e-1"), 0.25);
  for (const char* const text : {"", " 12", "12 ", "12x", "+12", "0x1f", "1.5", "1,000", "--1"}) {
    EXPECT_FALSE(number_in<int>(text)) << '"' << text << '"';
  }
  EXPECT_FALSE(number_in<double>("1.5%"));
}

TEST(NumberIn, IsNothingWhereTheTypeIsTooSmall) {
  EXPECT_EQ(number_in<int>("2147483647"), 2147483647);
  EXPECT_FALSE(number_in<int>("2147483648"));
  EXPECT_FALSE(number_in<std::uint64_t>("-1"));
  EXPECT_FALSE(number_in<double>("1e999"));
}

TEST(Trimmed, TakesBlanksFromTheEndsOnly) {
  EXPECT_EQ(trimmed(" \ta b\t "), "a b");
  EXPECT_EQ(trimmed(" \t"), "");
  EXPECT_EQ(trimmed("a\r"), "a\r");
  EXPECT_EQ(trimmed("a\r", " \r"), "a");
}

TEST(Split, GivesOnePartMoreThanThereAreSeparators) {
  const std::vector<std::string> parts = {"a", "", "b ", ""};
  EXPECT_EQ(split("a,,b ,", ','), parts);
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
}

TEST(Wrap, FillsLinesAndIndentsThoseAfterTheFirst) {
  EXPECT_EQ(wrap("one two three four", 9, 2), "one two\n  three\n  four\n");
  EXPECT_EQ(wrap("one two", 0, 2), "one two\n");
  EXPECT_EQ(wrap("", 10, 2), "\n");
}

TEST(Wrap, CountsWhatTheCallerHasWrittenOnTheFirstLine) {
  EXPECT_EQ(wrap("one two three", 12, 4, 4), "one two\n    three\n");
}

TEST(Wrap, LeavesAWordThatIsLongerThanALineWhole) {
  EXPECT_EQ(wrap("a incomprehensible b", 6, 2), "a\n  incomprehensible\n  b\n");
}

TEST(Wrap, MeasuresCharactersAndNotBytes) {
  EXPECT_EQ(wrap("\u00b5\u00b5\u00b5 \u00b5\u00b5", 6, 0), "\u00b5\u00b5\u00b5 \u00b5\u00b5\n");
}

TEST(Elided, KeepsTheBeginningAndMoreOfTheEnd) {
  const auto width = [](std::string_view text) { return static_cast<double>(display_width(text)); };
  EXPECT_EQ(elided("abcdefghij", 10, width), "abcdefghij");
  EXPECT_EQ(elided("abcdefghij", 7, width), "ab\u2026ghij");
  EXPECT_EQ(elided("\u00b5\u00b5\u00b5\u00b5", 3, width), "\u2026\u00b5\u00b5");
  EXPECT_EQ(elided("abcdefghij", 0, width), "\u2026");
}

TEST(SizeText, UsesTheLargestUnitThatIsExact) {
  EXPECT_EQ(size_text(1), "1 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text((std::size_t{1} << 20) + 1), "1048577 B");
  EXPECT_EQ(size_text(std::size_t{512} << 20), "512 MiB");
}

TEST(Counted, AddsAnSToAllNumbersButOne) {
  EXPECT_EQ(counted(0, "core"), "0 cores");
  EXPECT_EQ(counted(1, "core"), "1 core");
  EXPECT_EQ(counted(std::size_t{2}, "core"), "2 cores");
  EXPECT_EQ(counted(std::int64_t{-1}, "core"), "-1 cores");
}

TEST(Wrap, KeepsANumberBesideItsPercent) {
  EXPECT_EQ(wrap("it took 28 % of it", 11, 2), "it took\n  28 % of\n  it\n");
  EXPECT_EQ(wrap("it took 28 %.", 10, 2), "it took\n  28 %.\n");
  EXPECT_EQ(wrap("90 %busy", 4, 0), "90\n%busy\n");
}

}  // namespace
}  // namespace ddpbench
