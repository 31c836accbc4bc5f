// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Step times: how they are distributed, and how they went along the run.
#include <fmt/format.h>

#include <algorithm>

#include "reports/html/picture.h"
#include "reports/html/picture_rows.h"

namespace ddpbench::report::html {
namespace {

constexpr double kBoxHeight = 14;
constexpr double kStripHeight = 34;
// A few steps may take many times the others; the axis ends here, in units of the 95th percentile,
// so that the others stay visible, and a mark and the table tell of the rest.
constexpr double kMostOverP95 = 2;

double shown_of(const StepGroup& group) {
  return std::min(group.time_s.max, kMostOverP95 * group.time_s.p95);
}

double largest_of(const StepsChart& chart) {
  double largest = 0;
  for (const StepGroup& group : chart.groups) largest = std::max(largest, shown_of(group));
  return largest;
}

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

void draw_box(Markup& page, const StepsChart& chart, const StepGroup& group, const Unit& unit,
              const Axis& axis, RowPicture& rows) {
  const std::size_t style = chart.series[group.series].style;
  const Area area = rows.row(group.name, with_unit(group.time_s.median, unit), style);
  const double y = area.top + area.height() / 2;
  open_entry(page, group.series, style_class(style) + " box");
  svg_line(page, {rows.x_of(group.time_s.p5), y}, {rows.x_of(group.q1_s), y}, "whisker");
  svg_line(page, {rows.x_of(group.q3_s), y}, {rows.x_of(group.time_s.p95), y}, "whisker");
  svg_rect(page, {rows.x_of(group.q1_s), area.top}, rows.x_of(group.q3_s) - rows.x_of(group.q1_s),
           area.height(), "quartiles", {});
  const double median = rows.x_of(group.time_s.median);
  svg_line(page, {median, area.top}, {median, area.bottom}, "median");
  svg_path(page, cross(rows.x_of(group.time_s.min), y), "extreme");
  const double most = rows.x_of(group.time_s.max);
  const bool beyond = group.time_s.max > axis.end;
  svg_path(
      page,
      beyond ? fmt::format("M{} {}l7 5l-7 5", decimal(most - 8), decimal(y - 5)) : cross(most, y),
      "extreme");
  // Thin shapes are hard to hit: the whole row answers.
  svg_rect(page, {0, area.top - 2}, kWidth, area.height() + 4, "hit",
           distribution_tip(group, unit));
  page.close();
}

void draw_distribution(Markup& page, const StepsChart& chart, const Unit& unit) {
  RowPicture rows(
      page,
      {"svg-distribution", "Distribution of step times",
       "A box for each run, with median, quartiles and percentiles. " + chart.caption.title},
      chart.groups.size(), kBoxHeight);
  const Axis axis = axis_to(largest_of(chart), unit, 6);
  rows.axis(axis, "step time, " + unit.name);
  for (const StepGroup& group : chart.groups) draw_box(page, chart, group, unit, axis, rows);
  rows.finish();
}

// A strip's own scale: from 0 to the largest step that is shown.
struct Strip {
  const StepGroup& group;
  Area area;
  double end = 1;
  double y_of(double value) const {
    return area.bottom - area.height() * std::clamp(value / end, 0.0, 1.0);
  }
};

void draw_bins(Markup& page, const Strip& strip, const Unit& unit, const RowPicture& rows) {
  std::string upper, lower, line;
  for (const StepBin& bin : strip.group.bins) {
    const double x = rows.x_of((bin.first_step + bin.last_step) / 2);
    const char* pen = line.empty() ? "M" : "L";
    line += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.median_s)));
    upper += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.max_s)));
    lower = fmt::format("L{} {}", decimal(x), decimal(strip.y_of(bin.min_s))) + lower;
  }
  svg_path(page, upper + lower + "z", "band");
  svg_path(page, line, "series thin");
  for (const StepBin& bin : strip.group.bins) {
    const double from = rows.x_of(bin.first_step), to = rows.x_of(bin.last_step + 1);
    const std::string steps =
        bin.first_step == bin.last_step
            ? fmt::format("step {:.0f}", bin.first_step)
            : fmt::format("steps {:.0f} to {:.0f}", bin.first_step, bin.last_step);
    svg_rect(page, {from, strip.area.top}, to - from, strip.area.height(), "hit",
             fmt::format("{}\n{}\nmedian {}\n{} to {}", strip.group.name, steps,
                         with_unit(bin.median_s, unit), number(bin.min_s / unit.size),
                         number(bin.max_s / unit.size)));
  }
}

void draw_course(Markup& page, const StepsChart& chart, const Unit& unit) {
  double last_step = 0;
  for (const StepGroup& group : chart.groups) {
    for (const StepBin& bin : group.bins) last_step = std::max(last_step, bin.last_step);
  }
  RowPicture rows(
      page,
      {"svg-course", "Step times along the run",
       "A strip for each run: median and range of neighbouring steps. " + chart.caption.title},
      chart.groups.size(), kStripHeight);
  rows.axis(axis_to(last_step + 1, {"", 1}, 6), "step");
  for (const StepGroup& group : chart.groups) {
    const std::size_t style = chart.series[group.series].style;
    const double end = shown_of(group);
    const Area area = rows.row(group.name, "0 to " + with_unit(end, unit), style);
    open_entry(page, group.series, style_class(style));
    svg_line(page, {area.left, area.bottom}, {area.right, area.bottom}, "axis");
    draw_bins(page, {group, area, end > 0 ? end : 1}, unit, rows);
    page.close();
  }
  rows.finish();
}

Table data_of(const StepsChart& chart, const Unit& unit) {
  Table table{"Step times, in " + unit.name,
              {{"run", true},
               {"steps"},
               {"least"},
               {"p5"},
               {"quartile 1"},
               {"median"},
               {"quartile 3"},
               {"p95"},
               {"p99"},
               {"most"}},
              {},
              {}};
  for (const StepGroup& group : chart.groups) {
    const StepStatistics& t = group.time_s;
    std::vector<Cell> row = {cell(group.name),
                             cell(static_cast<double>(group.count), std::to_string(group.count))};
    for (const double value :
         {t.min, t.p5, group.q1_s, t.median, group.q3_s, t.p95, t.p99, t.max}) {
      row.push_back(cell(value, fixed(value / unit.size, 2)));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

void write_steps(Markup& page, const StepsChart& chart) {
  if (!chart.empty_reason.empty()) return write_no_picture(page, "Step times", chart.empty_reason);
  const Unit unit = time_unit(largest_of(chart));
  ChartCaption caption = chart.caption;
  const double end = axis_to(largest_of(chart), unit, 6).end;
  if (std::ranges::any_of(chart.groups, [&](const auto& g) { return g.time_s.max > end; })) {
    caption.notes.emplace_back("arrow at the edge: the slowest steps are beyond the axis");
  }
  caption.notes.emplace_back("each strip has a scale of its own, stated beside its name");
  write_picture(page, {"steps", "Step times", caption, line_legend(chart.series),
                       [&](Markup& to) {
                         draw_distribution(to, chart, unit);
                         draw_course(to, chart, unit);
                       },
                       data_of(chart, unit)});
}

}  // namespace ddpbench::report::html
