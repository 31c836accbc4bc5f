// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/charts/chart_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>

#include "base/math.h"
#include "base/text.h"
#include "reports/charts/chart_canvas.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::report {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr std::array kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array kAsciiHeights = {"_", ".", ":", "-", "=", "+", "*", "#"};

// ---- scaling ----

std::string rate_text(const Spread& rate) {
  if (rate.count == 1) return fmt::format("{:.0f}", rate.median);
  return fmt::format("{:.0f} ({:.0f}..{:.0f})", rate.median, rate.min, rate.max);
}

std::string efficiency_text(const ScalingPoint& point) {
  return point.efficiency ? fmt::format("{:.1f} %", 100 * point.efficiency->median) : "-";
}

std::vector<TextRow> scaling_rows(const ScalingChart& chart) {
  std::size_t rate = 0;
  for (const ScalingPoint& point : chart.points) {
    rate = std::max(rate, rate_text(point.samples_per_s).size());
  }
  std::vector<TextRow> rows;
  for (const ScalingPoint& point : chart.points) {
    rows.push_back({heading_of(chart, point.series),
                    devices_text(point.devices, point.oversubscribed),
                    fmt::format("{:>{}}  {:>7}", rate_text(point.samples_per_s), rate,
                                efficiency_text(point))});
  }
  return rows;
}

// The samples/s of perfect scaling at this point, where a chart can say it.
std::optional<double> ideal_of(const ScalingChart& chart, const ScalingPoint& point) {
  if (chart.ideals.size() != 1 || point.oversubscribed) return std::nullopt;
  return chart.ideals.front().samples_per_s_per_device * point.devices;
}

// ---- stacked bars ----

struct Unit {
  const char* name;
  double scale;
  int decimals;
};

// A character for each part: the first one of its name that is still free.
std::string letters_of(const std::vector<std::string>& parts) {
  std::string letters;
  for (const std::string& part : parts) {
    std::string from = part + "abcdefghijklmnopqrstuvwxyz0123456789";
    std::erase_if(from, [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) == 0 ||
             letters.find(c) != std::string::npos;
    });
    letters += from.empty() ? '#' : from.front();
  }
  return letters;
}

std::string legend(const StackedChart& chart, const std::string& letters, const char* mark) {
  std::string text;
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    text += fmt::format("{}: {}, ", letters[i], chart.parts[i]);
  }
  return fmt::format("{}{}: {}", text, mark, chart.whole);
}

std::string draw_stacked(const StackedChart& chart, const TextOptions& options, const Unit& unit) {
  const char* mark = options.unicode ? "│" : "|";
  const std::string letters = letters_of(chart.parts);
  std::vector<TextRow> rows;
  double most = chart.end;
  for (const StackedBar& bar : chart.bars) {
    std::string label = devices_text(bar.devices, bar.oversubscribed);
    if (!bar.label.empty()) label += ' ' + bar.label;
    rows.push_back({heading_of(chart, bar.series), label,
                    fmt::format("{:.{}f} {}", bar.whole / unit.scale, unit.decimals, unit.name)});
    double sum = 0;
    for (const double part : bar.parts) sum += part;
    most = std::max({most, sum, bar.whole});
  }
  TextCanvas canvas(chart, options.width, rows);
  canvas.line(legend(chart, letters, mark), 2);
  for (std::size_t i = 0; i < chart.bars.size(); ++i) {
    TextBar bar(canvas.cells(), most);
    double begin = 0;
    for (std::size_t part = 0; part < chart.parts.size(); ++part) {
      const double end = begin + chart.bars[i].parts[part];
      bar.fill(begin, end, std::string_view(letters).substr(part, 1));
      begin = end;
    }
    bar.set(chart.bars[i].whole, mark);
    canvas.row(rows[i], bar.text());
  }
  return canvas.finish(chart);
}

// ---- steps ----

std::string box(const StepGroup& group, std::size_t cells, double most, bool unicode) {
  TextBar bar(cells, most);
  const StepStatistics& time = group.time_s;
  bar.fill(time.p5, time.p95, unicode ? "─" : "-");
  bar.fill(group.q1_s, group.q3_s, unicode ? "█" : "#");
  bar.set(time.min, "x");
  bar.set(time.max, time.max > most ? (unicode ? "▶" : ">") : "x");
  bar.set(time.median, unicode ? "┃" : "|");
  return bar.text();
}

// The slowest step of each stretch of the run, as heights from 0 to `end_s`; an arrow where it is
// slower than that.
std::string course(const StepGroup& group, std::size_t cells, double end_s, bool unicode) {
  const auto& heights = unicode ? kHeights : kAsciiHeights;
  const std::size_t count = std::min(cells, group.bins.size());
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    double most = 0;
    for (std::size_t b = i * group.bins.size() / count; b < (i + 1) * group.bins.size() / count;
         ++b) {
      most = std::max(most, group.bins[b].max_s);
    }
    const double share = end_s > 0 ? std::min(most / end_s, 1.0) : 0;
    const auto height = static_cast<std::size_t>(std::lround(share * (kHeights.size() - 1)));
    const bool beyond = end_s > 0 && most > end_s;
    text += beyond ? (unicode ? "▲" : "^") : heights[std::min(height, kHeights.size() - 1)];
  }
  return text;
}

// ---- buckets ----

std::string timeline(const BucketGroup& group, const BucketBar& bucket, std::size_t cells,
                     double most, bool unicode) {
  TextBar bar(cells, most);
  bar.fill(bucket.ready_s, bucket.start_s, unicode ? "░" : ".");
  bar.fill(bucket.start_s, bucket.arrived_s, unicode ? "▒" : "-");
  bar.fill(bucket.arrived_s, bucket.end_s, unicode ? "█" : "#");
  if (group.step_s > 0) bar.set(group.step_s, unicode ? "│" : "|");
  return bar.text();
}

// ---- accuracy ----

std::string training_text(const Spread& trained, CourseAxis axis) {
  if (axis == CourseAxis::steps && trained.min == trained.max) {
    return fmt::format("{:.0f} steps", trained.median);
  }
  const std::string text = axis == CourseAxis::steps ? fmt::format("{:.0f} steps", trained.median)
                                                     : fmt::format("{:.4g} s", trained.median);
  return trained.count == 1 ? text
                            : fmt::format("{} ({:.4g}..{:.4g})", text, trained.min, trained.max);
}

std::vector<TextRow> accuracy_rows(const AccuracyChart& chart) {
  std::size_t time = 0;
  for (const AccuracyPoint& point : chart.points) {
    time = std::max(time, training_text(point.trained, chart.axis).size());
  }
  std::vector<TextRow> rows;
  for (const AccuracyPoint& point : chart.points) {
    const std::string loss =
        point.train_loss ? fmt::format("{:.4f}", point.train_loss->median) : "-";
    rows.push_back({heading_of(chart, point.series), fmt::format("{:3}", point.epochs),
                    fmt::format("{:6.2f} %  {:>7}  {:<{}}", 100 * point.test_accuracy.median, loss,
                                training_text(point.trained, chart.axis), time)});
  }
  return rows;
}

double longest_training(const AccuracyChart& chart) {
  double longest = 0;
  for (const AccuracyPoint& point : chart.points) longest = std::max(longest, point.trained.max);
  return longest;
}

// The loss of a series along the training as heights from 0 to that of the series' largest: in each
// cell the last reading. A cell without any is blank.
std::string loss_course(const std::vector<CoursePoint>& losses, double longest, std::size_t cells,
                        bool unicode) {
  const auto& heights = unicode ? kHeights : kAsciiHeights;
  const double largest = std::ranges::max(losses, {}, &CoursePoint::train_loss).train_loss;
  std::vector<std::string> marks(cells, " ");
  for (const CoursePoint& point : losses) {
    const double place = longest > 0 ? point.trained / longest : 0;
    const double share = largest > 0 ? point.train_loss / largest : 0;
    const auto cell = static_cast<std::size_t>(place * static_cast<double>(cells));
    const auto height = static_cast<std::size_t>(std::lround(share * (kHeights.size() - 1)));
    marks[std::min(cell, cells - 1)] = heights[std::min(height, kHeights.size() - 1)];
  }
  std::string text;
  for (const std::string& mark : marks) text += mark;
  return text;
}

// Draws the course of the loss below the last epoch of `series`, where it is known.
void draw_course(const AccuracyChart& chart, std::size_t series, bool unicode, TextCanvas& canvas) {
  std::vector<CoursePoint> losses;
  std::ranges::copy_if(chart.losses, std::back_inserter(losses),
                       [series](const CoursePoint& point) { return point.series == series; });
  if (losses.empty()) return;
  canvas.below(
      loss_course(losses, longest_training(chart), canvas.cells(), unicode),
      fmt::format("loss {:.4f} to {:.4f}", losses.front().train_loss, losses.back().train_loss));
}

std::string accuracy_legend(const AccuracyChart& chart, const char* mark) {
  std::string text = "epochs, test accuracy";
  if (chart.shown_from > 0)
    text += fmt::format(" (bars from {})", accuracy_words(chart.shown_from));
  text += chart.axis == CourseAxis::seconds ? ", train loss, training time" : ", train loss, steps";
  if (!chart.losses.empty()) text += "; below them: the loss along the training";
  for (const double target : chart.targets) {
    text +=
        fmt::format("{}{}", target == chart.targets.front() ? fmt::format("; {}: ", mark) : ", ",
                    accuracy_words(target));
  }
  return text;
}

}  // namespace

std::string draw_text(const AccuracyChart& chart, const TextOptions& options) {
  const char* mark = options.unicode ? "│" : "|";
  const std::vector<TextRow> rows = accuracy_rows(chart);
  TextCanvas canvas(chart, options.width, rows);
  canvas.line(accuracy_legend(chart, mark), 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TextBar bar(canvas.cells(), 1 - chart.shown_from);
    bar.fill(0, chart.points[i].test_accuracy.median - chart.shown_from,
             options.unicode ? "█" : "#");
    for (const double target : chart.targets) bar.set(target - chart.shown_from, mark);
    canvas.row(rows[i], bar.text());
    const std::size_t series = chart.points[i].series;
    const bool last = i + 1 == rows.size() || chart.points[i + 1].series != series;
    if (last) draw_course(chart, series, options.unicode, canvas);
  }
  return canvas.finish(chart);
}

std::string draw_text(const ScalingChart& chart, const TextOptions& options) {
  const std::vector<TextRow> rows = scaling_rows(chart);
  double most = 0;
  for (const ScalingPoint& point : chart.points) {
    most = std::max({most, point.samples_per_s.max, ideal_of(chart, point).value_or(0)});
  }
  TextCanvas canvas(chart, options.width, rows);
  const char* mark = options.unicode ? "│" : "|";
  const bool repeated = std::ranges::any_of(
      chart.points, [](const ScalingPoint& point) { return point.samples_per_s.count > 1; });
  canvas.line(
      fmt::format("devices, samples/s{}, efficiency{}", repeated ? " (of all repetitions)" : "",
                  chart.ideals.size() == 1 ? fmt::format("; {}: ideal", mark) : ""),
      2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ScalingPoint& point = chart.points[i];
    TextBar bar(canvas.cells(), most);
    const char* full = options.unicode ? "█" : "#";
    const char* half = options.unicode ? "▒" : ":";
    bar.fill(0, point.samples_per_s.median, point.oversubscribed ? half : full);
    if (const auto ideal = ideal_of(chart, point)) bar.set(*ideal, mark);
    canvas.row(rows[i], bar.text());
  }
  return canvas.finish(chart);
}

std::string draw_breakdown(const StackedChart& chart, const TextOptions& options) {
  return draw_stacked(chart, options, {"ms", 1e-3, 2});
}

std::string draw_memory(const StackedChart& chart, const TextOptions& options) {
  return draw_stacked(chart, options, {"MiB", kMiB, 1});
}

std::string draw_busy(const StackedChart& chart, const TextOptions& options) {
  return draw_stacked(chart, options, {"%", 0.01, 1});
}

std::string draw_text(const StepsChart& chart, const TextOptions& options) {
  std::vector<TextRow> rows;
  for (const StepGroup& group : chart.groups) {
    rows.push_back({heading_of(chart, group.series),
                    devices_text(group.devices, group.oversubscribed),
                    fmt::format("median {:.2f} ms", group.time_s.median / kMillisecond)});
  }
  TextCanvas canvas(chart, options.width, rows);
  canvas.line(fmt::format("devices; 0 to {:.2f} ms; below each: the slowest steps along the run",
                          chart.shown_s / kMillisecond),
              2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StepGroup& group = chart.groups[i];
    canvas.row(rows[i], box(group, canvas.cells(), chart.shown_s, options.unicode));
    canvas.below(course(group, canvas.cells(), chart.shown_s, options.unicode),
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
  TextCanvas canvas(chart, options.width, rows);
  canvas.line(options.unicode ? "░: queueing, ▒: waiting, █: transfer, │: median step"
                              : ".: queueing, -: waiting, #: transfer, |: median step",
              2);
  std::size_t next = 0;
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      canvas.row(rows[next++], timeline(group, bar, canvas.cells(), chart.end_s, options.unicode));
    }
  }
  return canvas.finish(chart);
}

std::string draw_text(const BandwidthChart& chart, const TextOptions& options) {
  std::vector<TextRow> rows;
  double most = 0;
  for (const BandwidthPoint& point : chart.points) {
    const Spread& rate = point.gb_per_s;
    std::string numbers = fmt::format("{:.3g} GB/s", rate.median);
    if (rate.count > 1) numbers += fmt::format(" ({:.3g}..{:.3g})", rate.min, rate.max);
    if (point.bound_gb_per_s) {
      numbers += fmt::format("  {:5.1f} %", 100 * rate.median / *point.bound_gb_per_s);
    } else {
      numbers += fmt::format("  {:>5}  ", '-');
    }
    rows.push_back({printable(fmt::format("{}, {}", chart.operations[point.panel],
                                          chart.series[point.series].name)),
                    size_text(point.bytes) + (point.oversubscribed ? "*" : ""), numbers});
    most = std::max({most, rate.median, point.bound_gb_per_s.value_or(0)});
  }
  TextCanvas canvas(chart, options.width, rows);
  const char* mark = options.unicode ? "│" : "|";
  canvas.line(fmt::format("size, bus bandwidth, share of the bound; {}: bound", mark), 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const BandwidthPoint& point = chart.points[i];
    TextBar bar(canvas.cells(), most);
    bar.fill(0, point.gb_per_s.median, options.unicode ? "█" : "#");
    if (point.bound_gb_per_s) bar.set(*point.bound_gb_per_s, mark);
    canvas.row(rows[i], bar.text());
  }
  return canvas.finish(chart);
}

}  // namespace ddpbench::report
