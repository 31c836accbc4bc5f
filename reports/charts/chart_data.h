// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the pictures of reports show, as numbers: `ddpbench chart` draws it as a file or in the
// terminal, `ddpbench html` in its pages. docs/charts.md says what each kind means.
//
// All runs of all reports go into one chart. Repetitions of the same thing (same series, same
// number of devices) become one point, bar or line. A run that did not end well, or failed its
// verification, is left out and named in the notes; so is what a picture has no room for.
//
// Text in these structures comes from report files and is not escaped for anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

enum class ChartKind : std::uint8_t { scaling, breakdown, memory, steps, buckets };
inline constexpr std::array kChartKinds = {ChartKind::scaling, ChartKind::breakdown,
                                           ChartKind::memory, ChartKind::steps, ChartKind::buckets};
std::string_view to_string(ChartKind kind);
std::optional<ChartKind> chart_kind(std::string_view word);

// What stands around a picture.
struct ChartCaption {
  std::string title;  // "Scaling: simple_cnn on mnist (files), weak scaling, 64 samples a device"
  std::string subtitle;            // "Imaginary 9000, 2 cores; cpu, 1 thread a device, fp32"
  std::vector<std::string> notes;  // what error bars mean, which runs are left out and why, ...
};

// Over the repetitions of one thing. Equal when there is one.
struct Spread {
  double median = 0, min = 0, max = 0;
  int count = 0;
};

// A line of a chart: a strategy, and what else tells its runs from others ("ddp, overlap off").
struct ChartSeries {
  std::string name;
  // Which colour, dash and marker: 0-3 single, dp, ddp, ps in every chart, from 4 on what else
  // there is, in order of appearance. May be larger than a palette: take the remainder.
  std::size_t style = 0;
};

// What every kind has. Nothing to draw: `empty_reason` says why and the rest is empty.
struct Chart {
  ChartCaption caption;
  std::vector<ChartSeries> series;
  std::string empty_reason;
};

// ---- scaling ----

struct ScalingPoint {
  std::size_t series = 0;  // index into Chart::series
  int devices = 1;         // training replicas; servers of ps are not counted
  Spread samples_per_s;
  std::optional<Spread> efficiency;  // 1 is perfect
  std::string efficiency_reason;     // why there is none
  bool oversubscribed = false;
};
struct ScalingChart : Chart {
  std::vector<ScalingPoint> points;  // by series, then devices
  // What perfect scaling of each kind of `single` run would give: slope x devices.
  struct Ideal {
    std::string name;  // "ideal", or "ideal: single, batch 128" where there are several
    double samples_per_s_per_device = 0;
  };
  std::vector<Ideal> ideals;
};
ScalingChart scaling_chart(std::span<const Report> reports);

// ---- breakdown and memory: stacked bars ----

struct StackedBar {
  std::size_t series = 0;
  int devices = 1;
  std::string group;  // "ddp on 4*": the bars of one group stand together; * is oversubscribed
  std::string label;  // of this bar in its group: "primary"; empty where a group is one bar
  std::vector<double> parts;  // as StackedChart::parts; none is negative
  // What was measured of the whole: the step's median, the peak of the sum. Parts need not add up
  // to it: medians do not add, and categories peak at different moments.
  double whole = 0;
  bool oversubscribed = false;
};
struct StackedChart : Chart {
  std::vector<std::string> parts;  // names, from the beginning of the bar
  // Which colour and pattern, 0-7: the same for a name in every chart of its kind.
  std::vector<std::size_t> part_styles;
  std::vector<StackedBar> bars;
  std::string whole;  // what `whole` of the bars is: "median step", "peak of the sum"
};
// Seconds. Parts: input wait, forward, backward, exposed communication, update, other (what is left
// of the median step). Medians over the repetitions.
StackedChart breakdown_chart(std::span<const Report> reports);
// Bytes. Parts: the memory categories. Bars of a group: the primary device (rank 0), of the other
// workers the one with the largest peak, and the same of the servers. Maxima over the repetitions.
StackedChart memory_chart(std::span<const Report> reports);

// ---- steps ----

struct StepBin {
  double first_step = 0, last_step = 0;  // 0-based numbers of timed steps, both included
  double min_s = 0, median_s = 0, max_s = 0;
};
struct StepGroup {
  std::size_t series = 0;
  int devices = 1;
  std::string name;  // "ddp on 4*"
  std::int64_t count = 0;
  StepStatistics time_s;  // of all samples of all repetitions
  double q1_s = 0, q3_s = 0;
  // A few steps may take many times the others. An axis for this group ends here, at twice the 95th
  // percentile or at the slowest step before it, so that the others stay visible; a mark at the
  // axis's end and a note tell of the rest.
  double shown_s = 0;
  // Along the run: each bin holds the same step numbers of all repetitions, so that minimum and
  // maximum are those of every sample; nothing is thinned away.
  std::vector<StepBin> bins;
  bool oversubscribed = false;
};
struct StepsChart : Chart {
  std::vector<StepGroup> groups;
  double shown_s = 0;  // the largest of the groups'
};
inline constexpr std::size_t kStepBins = 240;  // at most, a group
StepsChart steps_chart(std::span<const Report> reports, std::size_t max_bins = kStepBins);

// ---- buckets ----

// Seconds since the step's begin, medians over the repetitions (of medians over the steps).
struct BucketBar {
  int rank = 0;
  std::string label;  // "rank 0 bucket 1", "rank 1 push 0"
  double ready_s = 0, start_s = 0, arrived_s = 0, end_s = 0;
  std::uint64_t bytes = 0;
};
struct BucketGroup {
  std::size_t series = 0;
  int devices = 1;
  std::string name;             // "ddp on 4*"
  double step_s = 0;            // median step
  std::vector<BucketBar> bars;  // by rank, then bucket
  bool oversubscribed = false;
};
struct BucketsChart : Chart {
  std::vector<BucketGroup> groups;
};
BucketsChart buckets_chart(std::span<const Report> reports);

}  // namespace ddpbench::report
