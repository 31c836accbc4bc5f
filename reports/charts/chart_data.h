// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the charts of reports show, as numbers. `ddpbench chart` draws them in a file (the scaling
// in the terminal, too), `ddpbench html` in its page. docs/charts.md says what each kind means.
//
// All runs of all reports go into one chart. Repetitions (same series, same number of devices)
// become one point, bar or line. The notes name the runs that are left out: those that did not end
// well or failed their verification, and those for which there is no room.
//
// Text in these structures comes from report files and is not escaped for anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// The words around a picture.
struct ChartCaption {
  std::string title;  // "Scaling: simple_cnn on mnist (files), weak scaling, 64 samples a device"
  std::string subtitle;            // "Imaginary 9000, 2 cores; cpu, 1 thread a device, fp32"
  std::vector<std::string> notes;  // what error bars mean, which runs are left out and why, ...
};

// Statistics over repetitions; with one repetition all three values are equal.
struct Spread {
  double median = 0, min = 0, max = 0;
  int count = 0;
};

// A line of a chart: a strategy, and the settings that tell its runs from others ("ddp, overlap
// off").
struct ChartSeries {
  std::string name;
  // Selects the colour: 0 to 3 for single, dp, ddp and ps in every chart, from 4 on for other
  // strategies in order of appearance. May exceed a palette: take the remainder.
  std::size_t style = 0;
  // Selects dash and marker among the series of a style: 0 for the first, which has the style's
  // own.
  std::size_t variant = 0;
  bool predicted = false;  // by `ddpbench predict`: dashed
};

// Repetitions: one series on one number of devices.
struct ChartGroup {
  std::size_t series = 0;       // index into Chart::series
  int devices = 1;              // training replicas; servers of ps are not counted
  std::string name;             // "ddp on 4*, overlap off"; *: oversubscribed
  bool oversubscribed = false;  // of any repetition
};

// What a chart and its picture have in common.
struct ChartHead {
  std::string id, heading;  // "memory", "Memory of a device"
  ChartCaption caption;
};

// What every kind of chart has. With nothing to draw, `empty_reason` says why and the rest, but for
// id and heading, is empty.
struct Chart : ChartHead {
  std::vector<ChartSeries> series;
  std::string empty_reason;
};

// ---- scaling ----

struct ScalingPoint : ChartGroup {
  Spread samples_per_s = {};
  std::optional<Spread> efficiency = {};  // 1 is perfect
  std::string efficiency_reason = {};     // why `efficiency` is missing
};
struct ScalingChart : Chart {
  std::vector<ScalingPoint> points;  // by series, then devices
  // Perfect scaling of one kind of `single` run: a straight line through 0.
  struct Ideal {
    std::string name;  // "ideal", or "ideal: single, batch 128" where there are several
    double samples_per_s_per_device = 0;
  };
  std::vector<Ideal> ideals;
};
ScalingChart scaling_chart(std::span<const Report> reports);

// The chart drawn with characters, for a terminal or a log of at most `width` columns; less than 40
// counts as 40. Each point has a line with its numbers, so that no colour is needed. Ends with a
// newline. REQUIRES: chart.empty_reason is empty.
std::string draw_text(const ScalingChart& chart, int width);

// ---- breakdown, memory and busy: stacked bars ----

struct StackedBar : ChartGroup {
  std::string label = {};  // "primary": the bar's name in its group; empty in a group of one
  std::vector<double> parts = {};  // as StackedChart::parts; none is negative
  // The measured whole: the median step, or the peak of the sum. It may differ from the sum of the
  // parts: medians do not add up, and categories peak at different moments.
  double whole = 0;
  double sum() const { return std::accumulate(parts.begin(), parts.end(), 0.0); }
};
struct StackedChart : Chart {
  enum class Measure : std::uint8_t { time, memory, share };  // of the unit that a picture has
  Measure measure = Measure::time;
  std::string description;
  std::vector<std::string> parts;  // names, from the beginning of the bar
  // Colour and pattern of each part, 0 to 7. A name has the same style in all charts of a kind.
  std::vector<std::size_t> part_styles;
  std::vector<StackedBar> bars;
  std::string whole;  // what StackedBar::whole is: "median step", "peak of the sum"
  double end = 0;     // where the axis ends at least
};
// In seconds, medians over the repetitions. Parts: input wait, forward, backward, exposed
// communication, update, and other (what is left of the median step).
StackedChart breakdown_chart(std::span<const Report> reports);
// In bytes, maxima over the repetitions. Parts: the memory categories. The bars of a group are
// those of the primary device (rank 0) and, by largest peak, of one other worker and one server.
StackedChart memory_chart(std::span<const Report> reports);
// In shares of the step, medians over the repetitions: how long each device computes. Parts:
// forward, backward, update. There is a bar for each worker ("rank 2").
StackedChart busy_chart(std::span<const Report> reports);
// In shares of the pushes to servers that serve workers one by one. Parts: how many updates by
// others their weights lacked.
StackedChart staleness_chart(std::span<const Report> reports);

// ---- steps ----

struct StepBin {
  double first_step = 0, last_step = 0;  // 0-based numbers of timed steps, both included
  double min_s = 0, median_s = 0, max_s = 0;
};
struct StepGroup : ChartGroup {
  std::int64_t count = 0;
  StepStatistics time_s = {};  // of all samples of all repetitions
  double q1_s = 0, q3_s = 0;
  // Along the run. A bin covers the same step numbers of all repetitions, and every sample counts.
  std::vector<StepBin> bins = {};
  std::vector<double> saves = {};  // numbers of steps before which checkpoints were saved
};
struct StepsChart : Chart {
  std::vector<StepGroup> groups;
  // Where the one scale of all groups ends: at their slowest step, but not beyond three times the
  // largest median. So neither a few very slow steps nor a disturbed run squeeze the others; a mark
  // at the scale's end and a note show them.
  double shown_s = 0;
};
inline constexpr std::size_t kStepBins = 240;  // the most bins of a group; fewer in many groups
StepsChart steps_chart(std::span<const Report> reports);

// ---- buckets ----

// Times in seconds since the step began: medians over the steps, then over the repetitions.
struct BucketBar {
  int rank = 0;
  std::string label;  // "rank 0 bucket 1", "rank 1 push 0"
  double ready_s = 0, start_s = 0, arrived_s = 0, end_s = 0;
  std::uint64_t bytes = 0;
  // The rank's backward pass hides communication; both are equal where it is not known.
  double backward_begin_s = 0, backward_end_s = 0;
};
struct BucketGroup : ChartGroup {
  double step_s = 0;                 // median step
  std::vector<BucketBar> bars = {};  // by rank, then bucket
};
struct BucketsChart : Chart {
  std::vector<BucketGroup> groups;
  double end_s = 0;  // where the one scale of all groups ends: their last step or bucket
};
BucketsChart buckets_chart(std::span<const Report> reports);

// ---- accuracy ----

// What training is measured in along the chart: its time without evaluation, its steps, or the
// samples of these.
enum class CourseAxis : std::uint8_t { seconds, steps, samples };

// The end of one epoch.
struct AccuracyPoint {
  std::size_t series = 0;
  int epochs = 1;  // trained so far
  // Training until then, as AccuracyChart::axis measures it. Repetitions may have different numbers
  // of epochs (--until-accuracy); `count` says of how many the point is.
  Spread trained;
  Spread test_accuracy;                   // 1 is all; of_miou: the mean intersection over union
  std::optional<Spread> train_loss = {};  // of the epoch
  bool oversubscribed = false;
};
// The loss within epochs, since the point before: medians over the repetitions that tell it.
struct CoursePoint {
  std::size_t series = 0;
  std::int64_t step = 0;
  double trained = 0, train_loss = 0;
};
// A series is a setting on one number of devices ("ddp on 4*").
struct AccuracyChart : Chart {
  CourseAxis axis = CourseAxis::seconds;
  std::vector<AccuracyPoint> points;  // by series, then epochs
  std::vector<CoursePoint> losses;    // by series, then steps; none where reports tell none
  bool of_miou = false;  // all runs tell it, so it is drawn in place of the accuracy of pixels
  const char* metric() const { return of_miou ? "mIoU" : "accuracy"; }
  std::vector<double> targets;  // of --until-accuracy or --until-miou, each once, ascending
  // Where the axis of the accuracy begins, below all points and targets. It ends at 1.
  double shown_from = 0;
};
AccuracyChart accuracy_chart(std::span<const Report> reports,
                             CourseAxis axis = CourseAxis::seconds);

// ---- bandwidth of collectives ----

// One size of one operation; over several reports that measured it alike, its repetitions.
struct BandwidthPoint {
  std::size_t panel = 0;                 // index into BandwidthChart::operations
  std::size_t series = 0;                // index into Chart::series
  std::uint64_t bytes = 0;               // of the whole buffer, above 0
  Spread gb_per_s;                       // bus bandwidth, above 0
  std::optional<double> bound_gb_per_s;  // that the measured bandwidth of memory allows; median
  bool oversubscribed = false;
};
struct BandwidthChart : Chart {
  std::vector<std::string> operations;  // "all_reduce": a panel each, all with the same axes
  std::vector<BandwidthPoint> points;   // by operation, series, then bytes
};
// Charts the collectives of `ddpbench comm`. A series is what they share beside operation and
// size ("2 ranks, ring"), and looks alike in all panels.
BandwidthChart bandwidth_chart(std::span<const Report> reports);

}  // namespace ddpbench::report
