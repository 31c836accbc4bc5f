// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step times and bucket timelines, with characters.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reports/charts/chart_canvas.h"
#include "reports/charts/chart_text.h"

namespace ddpbench::report {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr std::array kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAsciiHeights = {"_", ".", ":", "-", "=", "+", "*", "#"};

// ---- steps ----

std::string box(const StepGroup& group, std::size_t cells, double most, bool unicode) {
  TextBar bar(cells, most);
  const StepStatistics& time = group.time_s;
  bar.fill(time.p5, time.p95, unicode ? "─" : "-");
  bar.fill(group.q1_s, group.q3_s, unicode ? "█" : "#");
  bar.set(time.min, "x");
  bar.set(time.max, "x");
  bar.set(time.median, unicode ? "┃" : "|");
  return bar.text();
}

// The slowest step of each part of the run, as heights over 0 ... the slowest of all.
std::string course(const StepGroup& group, std::size_t cells, bool unicode) {
  const auto& heights = unicode ? kHeights : kAsciiHeights;
  const std::size_t count = std::min(cells, group.bins.size());
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    double most = 0;
    for (std::size_t b = i * group.bins.size() / count; b < (i + 1) * group.bins.size() / count;
         ++b) {
      most = std::max(most, group.bins[b].max_s);
    }
    const double share = group.time_s.max > 0 ? most / group.time_s.max : 0;
    const auto height = static_cast<std::size_t>(share * (kHeights.size() - 1) + 0.5);
    text += heights[std::min(height, kHeights.size() - 1)];
  }
  return text;
}

// ---- buckets ----

double last_s(const BucketsChart& chart) {
  double last = 0;
  for (const BucketGroup& group : chart.groups) {
    last = std::max(last, group.step_s);
    for (const BucketBar& bar : group.bars) last = std::max(last, bar.end_s);
  }
  return last;
}

std::string timeline(const BucketGroup& group, const BucketBar& bucket, std::size_t cells,
                     double most, bool unicode) {
  TextBar bar(cells, most);
  bar.fill(bucket.ready_s, bucket.start_s, unicode ? "░" : ".");
  bar.fill(bucket.start_s, bucket.arrived_s, unicode ? "▒" : "-");
  bar.fill(bucket.arrived_s, bucket.end_s, unicode ? "█" : "#");
  if (group.step_s > 0) bar.set(group.step_s, unicode ? "│" : "|");
  return bar.text();
}

}  // namespace

std::string draw_text(const StepsChart& chart, const TextOptions& options) {
  std::vector<TextRow> rows;
  double most = 0;
  for (const StepGroup& group : chart.groups) {
    rows.push_back({heading_of(chart, group.series),
                    devices_text(group.devices, group.oversubscribed),
                    fmt::format("median {:.2f} ms", group.time_s.median / kMillisecond)});
    most = std::max(most, group.time_s.max);
  }
  TextCanvas canvas(chart, options, rows);
  canvas.line(fmt::format("devices; 0 to {:.2f} ms; below each: the slowest steps along the run",
                          most / kMillisecond),
              2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StepGroup& group = chart.groups[i];
    canvas.row(rows[i], box(group, canvas.cells(), most, options.unicode));
    canvas.below(course(group, canvas.cells(), options.unicode),
                 fmt::format("max {:.2f} ms", group.time_s.max / kMillisecond));
  }
  return canvas.finish(chart);
}

std::string draw_text(const BucketsChart& chart, const TextOptions& options) {
  std::vector<TextRow> rows;
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      rows.push_back({group.name, bar.label,
                      fmt::format("{:.2f} to {:.2f} ms", bar.ready_s / kMillisecond,
                                  bar.end_s / kMillisecond)});
    }
  }
  const double most = last_s(chart);
  TextCanvas canvas(chart, options, rows);
  canvas.line(options.unicode ? "░: queueing, ▒: waiting, █: transfer, │: median step"
                              : ".: queueing, -: waiting, #: transfer, |: median step",
              2);
  std::size_t next = 0;
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      canvas.row(rows[next++], timeline(group, bar, canvas.cells(), most, options.unicode));
    }
  }
  return canvas.finish(chart);
}

}  // namespace ddpbench::report
