// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Charts in the terminal, as people see them.
#include "reports/chart_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "reports/table_layout.h"
#include "tests/reports/sample_report.h"

namespace ddpbench::report {
namespace {

std::string draw(const Report& report, ChartKind kind, const TextOptions& options) {
  const std::span<const Report> reports(&report, 1);
  switch (kind) {
    case ChartKind::scaling:
      return draw_text(scaling_chart(reports), options);
    case ChartKind::breakdown:
      return draw_breakdown(breakdown_chart(reports), options);
    case ChartKind::memory:
      return draw_memory(memory_chart(reports), options);
    case ChartKind::steps:
      return draw_text(steps_chart(reports), options);
    case ChartKind::buckets:
      break;
  }
  return draw_text(buckets_chart(reports), options);
}

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    longest = std::max(longest, display_width(line));
  }
  return longest;
}

TEST(TextChart, KeepsToTheWidth) {
  Report report = test::sample_report();
  for (const std::size_t width : {60U, 80U, 81U, 200U}) {
    for (const ChartKind kind : kChartKinds) {
      const std::string text = draw(report, kind, {static_cast<int>(width), true});
      EXPECT_LE(longest_line(text), width) << text;
    }
  }
}

TEST(TextChart, IsAsciiWhereAskedFor) {
  for (const ChartKind kind : kChartKinds) {
    const std::string text = draw(test::sample_report(), kind, {80, false});
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c > 0; })) << text;
  }
}

TEST(TextChart, SendsNoControlCharacterToTheTerminal) {
  Report report = test::hostile_report();
  for (report::Run& run : report.runs) run.strategy += "\x1b[31m\a";
  for (const ChartKind kind : kChartKinds) {
    const std::string text = draw(report, kind, {80, true});
    EXPECT_TRUE(std::ranges::none_of(text, [](char c) {
      return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f';
    })) << text;
  }
}

}  // namespace
}  // namespace ddpbench::report
