// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The scaling as a terminal shows it.
#include "reports/charts/chart_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/reports/sample_report.h"
#include "tests/reports/text_width.h"

namespace ddpbench::report {
namespace {

std::string draw(const Report& report, int width) {
  return draw_text(scaling_chart({&report, 1}), width);
}

TEST(TextChart, ScalingShowsRatesBesideIdeals) {
  EXPECT_EQ(draw(test::sample_report(), 80),
            R"(Scaling: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
devices, samples/s, efficiency; │: ideal

single
   1   █████████████████████████████│                              3200  100.0 %

dp
   2   ███████████████████████████████████████████████          │  5200   81.2 %

ddp
   2   ███████████████████████████████████████████████████████  │  6100   95.3 %

ps
   4*  ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒      6000        -

one repetition: no error bars
* or hollow: oversubscribed, more compute threads than cores: says nothing about
  scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA device
  is here)
)");
}

TEST(TextChart, ShowsDigitsOfSmallRates) {
  const Report report = test::report_of({test::sample_run("ddp", 2, 1.6)});
  EXPECT_THAT(draw(report, 80), testing::HasSubstr(" 1.60 "));
}

TEST(BusyChart, LeavesOutRunsWhosePhasesAreNotKnown) {
  const Report report = test::sample_report();
  EXPECT_THAT(busy_chart({&report, 1}).empty_reason,
              ::testing::HasSubstr("its phases were not recorded"));
}

TEST(StalenessChart, HasTheSharesOfThePushesOfEachRun) {
  Report report = test::sample_report();
  EXPECT_FALSE(staleness_chart({&report, 1}).empty_reason.empty());
  report.runs[2].pushes =
      PushSection{.pushes_by_staleness = {{"0", 1}, {"1", 2}, {"2", 3}, {"3", 1}, {"9", 3}}};
  const StackedChart chart = staleness_chart({&report, 1});
  ASSERT_EQ(chart.bars.size(), 1u);
  EXPECT_THAT(chart.bars[0].parts, ::testing::ElementsAre(0.1, 0.2, 0.4, 0, 0.3));
}

TEST(TextChart, KeepsToTheWidth) {
  Report report = test::sample_report();
  for (const std::size_t width : {40U, 60U, 80U, 81U, 200U}) {
    const std::string text = draw(report, static_cast<int>(width));
    EXPECT_LE(test::longest_line(text), width) << text;
  }
}

TEST(TextChart, SendsNoControlCharacterToTheTerminal) {
  Report report = test::hostile_report();
  for (report::Run& run : report.runs) run.strategy += "\x1b[31m\a";
  const std::string text = draw(report, 80);
  EXPECT_TRUE(std::ranges::none_of(text, [](char c) {
    return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f';
  })) << text;
}

}  // namespace
}  // namespace ddpbench::report
