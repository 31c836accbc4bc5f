// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Charts as a terminal shows them.
#include "reports/charts/chart_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/reports/run_charts.h"
#include "tests/reports/sample_report.h"
#include "tests/reports/text_width.h"

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
    case ChartKind::accuracy:
      return draw_text(accuracy_chart(reports), options);
    case ChartKind::busy:
      return draw_busy(busy_chart(reports), options);
    case ChartKind::buckets:
    case ChartKind::bandwidth:
      break;
  }
  return draw_text(buckets_chart(reports), options);
}

TEST(TextChart, ScalingShowsRatesBesideIdeals) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::scaling, {80, true}),
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
*: oversubscribed, more compute threads than cores: says nothing about scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA device
  is here)
)");
}

TEST(TextChart, ScalingInAscii) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::scaling, {60, false}),
            R"(Scaling: simple_cnn on mnist (files), weak scaling, batch 64
  a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a
  device, fp32
devices, samples/s, efficiency; |: ideal

single
   1   ###################|                    3200  100.0 %

dp
   2   ###############################      |  5200   81.2 %

ddp
   2   #################################### |  6100   95.3 %

ps
   4*  ::::::::::::::::::::::::::::::::::::    6000        -

one repetition: no error bars
*: oversubscribed, more compute threads than cores: says
  nothing about scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8
  (skipped: no CUDA device is here)
)");
}

TEST(TextChart, BreakdownShowsPartsAsLetters) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::breakdown, {80, true}),
            R"(Step time: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
i: input wait, f: forward, b: backward, e: exposed communication, u: update, w:
  waiting for devices, o: other, │: median step

single
   1   fffffffffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbuuuoo│  20.00 ms

dp
   2   fffffffffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbeuuuo│  20.00 ms

ddp
   2   fffffffffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbeuuuo│  20.00 ms

ps
   4*  fffffffffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbeuuuo│  20.00 ms

parts are medians of the slowest rank and do not add up exactly to the median
  step
other: loss, launching, and what no phase covers
*: oversubscribed, more compute threads than cores: says nothing about scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA device
  is here)
)");
}

TEST(TextChart, AccuracyShowsEpochsBelowEachOther) {
  Report report = test::sample_report();
  report.runs = {report.runs[0], report.runs[0]};
  for (report::Run& run : report.runs) {
    run.epochs.push_back({1, 10, 60032, 6003.2, 0.1, 0.97, Figure::of(0.99)});
    run.until_accuracy = AccuracyTarget{0.985, Figure::of(20)};
  }
  report.runs[1].repetition = 1;
  report.runs[1].epochs[1].time_s = 12;
  EXPECT_EQ(draw(report, ChartKind::accuracy, {80, true}),
            R"(Accuracy: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
epochs, test accuracy (bars from 98 %), train loss, training time; │: 98.5 %

single on 1
    1  ██        │                               98.12 %   0.2345  10 s (10..10)
    2  ██████████│█████████                      99.00 %   0.1000  21 s (20..22)

a point is the end of an epoch; the time is that of training, without evaluation
median of 2 repetitions; error bars, or in brackets: their minimum and maximum
the axis of the accuracy begins at 98 %
)");
}

TEST(TextChart, AccuracyShowsTheCourseOfTheLossBelowTheEpochs) {
  Report report = test::sample_report();
  report.runs = {report.runs[2]};
  report.runs[0].progress = {
      {0, 117, 2.5, 0, 2, 0.5}, {0, 235, 5, 0, 1, 0.5}, {0, 469, 10, 0, 0.25, 0.5}};
  const std::string drawn = draw(report, ChartKind::accuracy, {80, true});
  EXPECT_THAT(drawn, ::testing::HasSubstr("training time; below them:\n  the loss along the"));
  EXPECT_THAT(
      drawn,
      ::testing::HasSubstr(
          "    1  ███                                                98.12 %   0.2345  10 s\n"
          "                   █           ▅                      ▂    loss 2.0000 to 0.2500\n"));
}

// The least busy device of dp waits for the primary.
TEST(TextChart, BusyShowsTheShareOfEveryDevice) {
  Report report = test::sample_report();
  report.runs = {report.runs[1]};
  std::vector<DeviceRow>& devices = report.runs[0].devices;
  devices[0].phases = {{"forward_s", Figure::of(0.006)},
                       {"backward_s", Figure::of(0.012)},
                       {"optimizer_s", Figure::of(0.001)}};
  devices[1].phases = {{"forward_s", Figure::of(0.004)},
                       {"backward_s", Figure::of(0.006)},
                       {"optimizer_s", Figure::missing("only the primary device does this")}};
  for (DeviceRow& device : devices) device.step_time_median_s = Figure::of(0.02);
  EXPECT_EQ(draw(report, ChartKind::busy, {60, false}),
            R"(Busy share: simple_cnn on mnist (files), weak scaling, batch
  64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a
  device, fp32
f: forward, b: backward, u: update, |: busy share

dp
   2  rank 0  fffffffffffbbbbbbbbbbbbbbbbbbbbbbbuu|   95.0 %
   2  rank 1  ffffffffbbbbbbbbbbb|                    50.0 %

the share of the median step in which a device computes; the
  rest is communication, waiting, input, loss and launching
)");
}

TEST(TextChart, BusyLeavesOutRunsWhosePhasesAreNotKnown) {
  const Report report = test::sample_report();
  EXPECT_THAT(busy_chart({&report, 1}).empty_reason,
              ::testing::HasSubstr("its phases were not recorded"));
}

TEST(TextChart, MemoryShowsCategoriesAsLetters) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::memory, {80, true}),
            R"(Device memory: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
w: weights, a: activations, │: peak of the sum

single
   1  primary             wwaaaaaaaaaaaaaaaaaaaaaa                   │  40.0 MiB

dp
   2  primary             wwaaaaaaaaaaaaaaaaaaaaaa                   │  40.0 MiB
   2  other               wwaaaaaaaaaaaaaaaaaaaaaa         │            30.0 MiB

ddp
   2  primary             wwaaaaaaaaaaaaaaaaaaaaaa                   │  40.0 MiB
   2  other               wwaaaaaaaaaaaaaaaaaaaaaa         │            30.0 MiB

ps
   4* primary             wwaaaaaaaaaaaaaaaaaaaaaa                   │  40.0 MiB
   4* others (most of 3)  wwaaaaaaaaaaaaaaaaaaaaaa         │            30.0 MiB
   4* server              ww│aaaaaaaaaaaaaaaaaaaaa                       2.0 MiB

each category at its own peak; they peak at different moments, so the peak of
  their sum may be lower
*: oversubscribed, more compute threads than cores: says nothing about scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA device
  is here)
)");
}

TEST(TextChart, StepsShowDistributionAndCourse) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::steps, {80, true}),
            R"(Step times: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
devices; 0 to 21.00 ms; below each: the slowest steps along the run

single
   1                                                      x█┃█x  median 20.00 ms
       ▇██                                                          max 21.00 ms

dp
   2                                                      x█┃█x  median 20.00 ms
       ▇██                                                          max 21.00 ms

ddp
   2                                                      x█┃█x  median 20.00 ms
       ▇██                                                          max 21.00 ms

ps
   4*                                                     x█┃█x  median 20.00 ms
       ▇██                                                          max 21.00 ms

box: quartiles and median; whiskers: 5th and 95th percentile; crosses: minimum
  and maximum
along the run: median, minimum and maximum of neighbouring steps; none is left
  out
*: oversubscribed, more compute threads than cores: says nothing about scaling
left out: ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no CUDA device
  is here)
)");
}

TEST(TextChart, BucketsShowATimeline) {
  EXPECT_EQ(draw(test::sample_report(), ChartKind::buckets, {80, false}),
            R"(Gradient buckets: simple_cnn on mnist (files), weak scaling, batch 64 a device
Imaginary 9000, 2 cores, Imaginary GPU; cpu, 1 thread a device, fp32
.: queueing, -: waiting, #: transfer, |: median step

ddp on 2
  rank 1 bucket 0                       ##                  |  10.00 to 11.00 ms

queueing: ready, held up by earlier buckets; waiting: for other ranks; transfer:
  the collective itself; medians, from the step's begin
left out: single on 1 (one device sends nothing); dp on 2, ps on 4 (no buckets
  were recorded); ddp on 4 (failed: killed by SIGKILL); dp on 8 (skipped: no
  CUDA device is here)
)");
}

TEST(TextChart, KeepsToTheWidth) {
  Report report = test::sample_report();
  for (const std::size_t width : {40U, 60U, 80U, 81U, 200U}) {
    for (const ChartKind kind : test::kRunChartKinds) {
      const std::string text = draw(report, kind, {static_cast<int>(width), true});
      EXPECT_LE(test::longest_line(text), width) << text;
    }
  }
}

TEST(TextChart, PutsNumbersBelowBarsWhereTheTerminalIsNarrow) {
  EXPECT_THAT(draw(test::sample_report(), ChartKind::buckets, {40, false}),
              ::testing::HasSubstr("  rank 1 bucket 0             #        |\n"
                                   "                       10.00 to 11.00 ms\n"));
}

TEST(TextChart, StepsHaveOneScale) {
  Report report = test::sample_report();
  report.runs = {report.runs[1], report.runs[2]};
  report.runs[0].step.samples_s.assign(100, 0.001);
  report.runs[1].step.samples_s.assign(100, 0.1);
  const std::string text = draw(report, ChartKind::steps, {80, true});
  EXPECT_THAT(text, ::testing::HasSubstr("0 to 100.00 ms"));
  EXPECT_THAT(text, ::testing::HasSubstr("▁▁▁▁"));
  EXPECT_THAT(text, ::testing::HasSubstr("████"));
}

TEST(TextChart, IsAsciiWhereAskedFor) {
  for (const ChartKind kind : test::kRunChartKinds) {
    const std::string text = draw(test::sample_report(), kind, {80, false});
    EXPECT_TRUE(std::ranges::all_of(text, [](char c) { return c > 0; })) << text;
  }
}

TEST(TextChart, SendsNoControlCharacterToTheTerminal) {
  Report report = test::hostile_report();
  for (report::Run& run : report.runs) run.strategy += "\x1b[31m\a";
  for (const ChartKind kind : test::kRunChartKinds) {
    const std::string text = draw(report, kind, {80, true});
    EXPECT_TRUE(std::ranges::none_of(text, [](char c) {
      return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f';
    })) << text;
  }
}

}  // namespace
}  // namespace ddpbench::report
