// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of step times: their distribution, and their course along the run.
#include <fmt/format.h>

#include <algorithm>

#include "reports/pictures/picture_rows.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kBoxHeight = 14;
constexpr double kStripHeight = 34;

std::string distribution_tip(const StepGroup& group, const Unit& unit) {
  const StepStatistics& t = group.time_s;
  return fmt::format(
      "{}\n{} steps\nmedian {}\nquartiles {} to {}\n5 % to 95 %: {} to {}\nleast {}, most {}",
      group.name, group.count, with_unit(t.median, unit), number(group.q1_s / unit.size),
      number(group.q3_s / unit.size), number(t.p5 / unit.size), number(t.p95 / unit.size),
      number(t.min / unit.size), number(t.max / unit.size));
}

std::string cross(double x, double y) {
  return fmt::format("M{} {}l6 6m0 -6l-6 6", decimal(x - 3), decimal(y - 3));
}

void draw_box(const StepsChart& chart, const StepGroup& group, const Unit& unit, const Axis& axis,
              RowPanel& rows) {
  Markup& markup = rows.markup();
  const ChartSeries& series = chart.series[group.series];
  const Area area = rows.row(group.name, with_unit(group.time_s.median, unit), series);
  const double y = area.top + area.height() / 2;
  open_entry(markup, group.series, line_class(series) + " box");
  svg_line(markup, {rows.x_of(group.time_s.p5), y}, {rows.x_of(group.q1_s), y}, "whisker");
  svg_line(markup, {rows.x_of(group.q3_s), y}, {rows.x_of(group.time_s.p95), y}, "whisker");
  svg_rect(markup, {rows.x_of(group.q1_s), area.top}, rows.x_of(group.q3_s) - rows.x_of(group.q1_s),
           area.height(), "quartiles", {});
  const double median = rows.x_of(group.time_s.median);
  svg_line(markup, {median, area.top}, {median, area.bottom}, "median");
  svg_path(markup, cross(rows.x_of(group.time_s.min), y), "extreme");
  const double most = rows.x_of(group.time_s.max);
  const bool beyond = group.time_s.max > axis.end;
  svg_path(
      markup,
      beyond ? fmt::format("M{} {}l7 5l-7 5", decimal(most - 8), decimal(y - 5)) : cross(most, y),
      "extreme");
  // Thin shapes are hard to hit, so the whole row shows the tip.
  svg_rect(markup, {area.left, area.top - 2}, area.width(), area.height() + 4, "hit",
           distribution_tip(group, unit));
  markup.close();
}

Panel distribution_panel(const StepsChart& chart, const Unit& unit, const Medium& medium) {
  RowPanel rows(
      {"svg-distribution", "Distribution of step times",
       "A box for each run, with median, quartiles and percentiles. " + chart.caption.title},
      medium.row_width, chart.groups.size(), medium.stretch * kBoxHeight);
  const Axis axis = axis_to(chart.shown_s, unit, 6);
  rows.axis(axis, "step time, " + unit.name);
  for (const StepGroup& group : chart.groups) draw_box(chart, group, unit, axis, rows);
  return rows.finish();
}

// All strips have one scale, from 0 to the largest step that is shown.
struct Strip {
  const StepGroup& group;
  Area area;
  double end = 1;
  double y_of(double value) const {
    return area.bottom - area.height() * std::clamp(value / end, 0.0, 1.0);
  }
};

// An arrow head at the strip's upper edge for each bin with a step that is slower than its axis.
std::string arrows_beyond(const Strip& strip, const RowPanel& rows) {
  std::string path;
  for (const StepBin& bin : strip.group.bins) {
    if (bin.max_s <= strip.end) continue;
    path +=
        fmt::format("M{} {}l3 -5l3 5", decimal(rows.x_of((bin.first_step + bin.last_step) / 2) - 3),
                    decimal(strip.area.top + 5));
  }
  return path;
}

void draw_bins(const Strip& strip, const Unit& unit, RowPanel& rows) {
  Markup& markup = rows.markup();
  std::string upper, lower, line;
  for (const StepBin& bin : strip.group.bins) {
    const double x = rows.x_of((bin.first_step + bin.last_step) / 2);
    const char* pen = line.empty() ? "M" : "L";
    line += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.median_s)));
    upper += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.max_s)));
    lower = fmt::format("L{} {}", decimal(x), decimal(strip.y_of(bin.min_s))) + lower;
  }
  svg_path(markup, upper + lower + "z", "band");
  svg_path(markup, line, "series thin");
  const std::string beyond = arrows_beyond(strip, rows);
  if (!beyond.empty()) svg_path(markup, beyond, "extreme beyond");
  for (const StepBin& bin : strip.group.bins) {
    const double from = rows.x_of(bin.first_step), to = rows.x_of(bin.last_step + 1);
    const std::string steps =
        bin.first_step == bin.last_step
            ? fmt::format("step {:.0f}", bin.first_step)
            : fmt::format("steps {:.0f} to {:.0f}", bin.first_step, bin.last_step);
    svg_rect(markup, {from, strip.area.top}, to - from, strip.area.height(), "hit",
             fmt::format("{}\n{}\nmedian {}\n{} to {}", strip.group.name, steps,
                         with_unit(bin.median_s, unit), number(bin.min_s / unit.size),
                         number(bin.max_s / unit.size)));
  }
}

Panel course_panel(const StepsChart& chart, const Unit& unit, const Medium& medium) {
  double last_step = 0;
  for (const StepGroup& group : chart.groups) {
    for (const StepBin& bin : group.bins) last_step = std::max(last_step, bin.last_step);
  }
  RowPanel rows(
      {"svg-course", "Step times along the run",
       "A strip for each run: median and range of neighbouring steps. " + chart.caption.title},
      medium.row_width, chart.groups.size(), medium.stretch * kStripHeight);
  const Unit steps{"", 1};
  rows.axis(axis_to(last_step + 1, steps, 6), "step");
  for (const StepGroup& group : chart.groups) {
    const ChartSeries& series = chart.series[group.series];
    const double end = chart.shown_s;
    std::string scale = "0 to " + with_unit(end, unit);
    if (group.time_s.max > end) scale += ", slowest " + with_unit(group.time_s.max, unit);
    const Area area = rows.row(group.name, scale, series);
    open_entry(rows.markup(), group.series, line_class(series));
    svg_line(rows.markup(), {area.left, area.bottom}, {area.right, area.bottom}, "axis");
    draw_bins({group, area, end > 0 ? end : 1}, unit, rows);
    rows.markup().close();
  }
  return rows.finish_zoomable(steps);
}

}  // namespace

Picture steps_picture(const StepsChart& chart, const Medium& medium) {
  const Unit unit = time_unit(chart.shown_s);
  Picture picture{"steps", "Step times", chart.caption, line_legend(chart.series), {}};
  picture.caption.notes.emplace_back("all strips have one scale, stated beside their names");
  picture.panels.push_back(distribution_panel(chart, unit, medium));
  picture.panels.push_back(course_panel(chart, unit, medium));
  return picture;
}

}  // namespace ddpbench::report::pictures
