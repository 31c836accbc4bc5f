// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of rows: stacked bars (the time of a step, the memory of a device, how busy it is), step
// times, and the timeline of gradient buckets.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/ranges.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kAxisRoom = 38;  // below all rows
constexpr double kSide = 1;       // so that lines at the edges are not cut
constexpr double kTitleRoom = 24;

// Where the words of rows are: above each, or left of all with a title above them.
struct RowLayout {
  double height = 0;  // of the shapes of a row
  double words = 17;  // above each row
  double gap = 9;     // below it
  double left = kSide;
  std::string title = {};
};

// Panels of rows: each bar or box has a name, and one axis is below all.
class RowPanel {
 public:
  RowPanel(double width, std::size_t rows, RowLayout layout, const Axis& axis,
           const std::string& axis_title)
      : width_(width),
        layout_(std::move(layout)),
        axis_(axis),
        next_(layout_.title.empty() ? 0 : kTitleRoom),
        area_{layout_.left, next_, width - kSide,
              next_ + static_cast<double>(rows) * (layout_.words + layout_.height + layout_.gap)} {
    if (next_ > 0) svg_text(markup_, {0, 13}, Anchor::start, "row", fitted(layout_.title, width));
    draw_x_axis(markup_, area_, axis, axis_title);
  }

  Markup& markup() { return markup_; }
  // What the shapes of a row show.
  void tell(std::string values) { values_.push_back(std::move(values)); }
  const Area& area() const { return area_; }
  double x_of(double value) const {
    return area_.left + area_.width() * std::clamp(axis_.position(value), 0.0, 1.0);
  }

  // Writes the words of the next row. Returns the area of its shapes.
  Area row(const std::string& name, const std::string& figure, const ChartSeries& series) {
    markup_.open("g", {{"class", line_class(series)}});
    svg_path(markup_, marker_path(line_marker(series), {9, next_ + 9}), "marker");
    markup_.close();
    // A border of words in the background's colour keeps grid lines from crossing them.
    svg_text(markup_, {20, next_ + 13}, Anchor::start, "row",
             fitted(name, width_ - text_width(figure) - 28));
    svg_text(markup_, {area_.right, next_ + 13}, Anchor::end, "row figure", figure);
    return next_row();
  }
  // The same of a row whose name is left of it.
  Area row(const std::string& name) {
    const Area row = next_row();
    svg_text(markup_, {row.left - 8, row.top + row.height() / 2 + 5}, Anchor::end, "row",
             fitted(name, row.left));
    return row;
  }

  // `zoomable`: the unit of an axis that begins at 0 and that a page can zoom into.
  Panel finish(SvgName name, const Unit* zoomable = nullptr) {
    Panel panel{std::move(name), width_, area_.bottom + kAxisRoom, markup_.take(), values_};
    if (zoomable != nullptr)
      panel.zoom = fmt::format("{} {} {:.9g}", decimal(area_.left), decimal(area_.right),
                               axis_.end / zoomable->size);
    return panel;
  }

 private:
  Area next_row() {
    const double top = next_ + (layout_.words > 0 ? layout_.words : layout_.gap / 2);
    next_ += layout_.words + layout_.height + layout_.gap;
    return {area_.left, top, area_.right, top + layout_.height};
  }

  Markup markup_;
  std::vector<std::string> values_;
  double width_;
  RowLayout layout_;
  Axis axis_;
  double next_;  // where the next row begins
  Area area_;
};

// ---- stacked bars ----

constexpr double kStackHeight = 16;
constexpr std::size_t kPartClasses = 8;  // as in pictures.css
constexpr double kShown = 0.15;          // units of length; shorter parts are not drawn

std::string part_class(const StackedChart& chart, std::size_t part) {
  return fmt::format("p{}", chart.part_styles[part] % kPartClasses);
}

double longest_bar(const StackedChart& chart) {
  return largest(chart.bars, 0.0,
                 [](const StackedBar& bar) { return std::max(bar.whole, bar.sum()); });
}

// "ddp on 4: primary".
std::string bar_name(const StackedBar& bar) {
  return bar.label.empty() ? bar.name : fmt::format("{}: {}", bar.name, bar.label);
}

Unit stacked_unit(const StackedChart& chart) {
  if (chart.measure == StackedChart::Measure::share) return {"%", 0.01};
  const double longest = longest_bar(chart);
  return chart.measure == StackedChart::Measure::memory ? memory_unit(longest) : time_unit(longest);
}

std::string part_tip(const StackedChart& chart, const StackedBar& bar, std::size_t part,
                     const Unit& unit) {
  const double sum = bar.sum();
  return fmt::format("{}\n{}: {}\n{:.1f} % of all parts", bar_name(bar), chart.parts[part],
                     with_unit(bar.parts[part], unit), sum > 0 ? 100 * bar.parts[part] / sum : 0.0);
}

void draw_stack(const StackedChart& chart, const StackedBar& bar, const Unit& unit,
                RowPanel& rows) {
  Markup& markup = rows.markup();
  const Area area = rows.row(bar_name(bar), with_unit(bar.whole, unit), chart.series[bar.series]);
  double before = 0;
  std::string values = fmt::format("{}: {}", bar_name(bar), with_unit(bar.whole, unit));
  for (std::size_t i = 0; i < bar.parts.size(); ++i) {
    values += fmt::format("\n{} {}", chart.parts[i], with_unit(bar.parts[i], unit));
    const double from = rows.x_of(before), to = rows.x_of(before + bar.parts[i]);
    before += bar.parts[i];
    if (to - from < kShown) continue;
    open_entry(markup, i, part_class(chart, i));
    svg_rect(markup, {from, area.top}, to - from, area.height(), "part",
             part_tip(chart, bar, i, unit));
    markup.close();
  }
  const double whole = rows.x_of(bar.whole);
  svg_line(markup, {whole, area.top - 2}, {whole, area.bottom + 2}, "whole");
  rows.tell(std::move(values));
}

Panel stacked_panel(const StackedChart& chart, const Medium& medium) {
  const Unit unit = stacked_unit(chart);
  RowPanel rows(medium.row_width, chart.bars.size(), {medium.stretch * kStackHeight},
                axis_to(std::max(longest_bar(chart), chart.end), unit, 5), unit.name);
  for (const StackedBar& bar : chart.bars) draw_stack(chart, bar, unit, rows);
  return rows.finish({"svg-" + chart.id, chart.heading,
                      fmt::format("{} {}", chart.description, chart.caption.title)});
}

// ---- step times ----

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
  const std::string tip = distribution_tip(group, unit);
  svg_rect(markup, {area.left, area.top - 2}, area.width(), area.height() + 4, "hit", tip);
  rows.tell(tip);
  markup.close();
}

Panel distribution_panel(const StepsChart& chart, const Unit& unit, const Medium& medium) {
  const Axis axis = axis_to(chart.shown_s, unit, 6);
  RowPanel rows(medium.row_width, chart.groups.size(), {medium.stretch * kBoxHeight}, axis,
                "step time, " + unit.name);
  for (const StepGroup& group : chart.groups) draw_box(chart, group, unit, axis, rows);
  return rows.finish(
      {"svg-distribution", "Distribution of step times",
       "A box for each run, with median, quartiles and percentiles. " + chart.caption.title});
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

void draw_bins(const Strip& strip, const Unit& unit, RowPanel& rows) {
  Markup& markup = rows.markup();
  std::string upper, lower, line, saves;
  std::string beyond;  // an arrow head at the upper edge where a step is slower than the scale
  for (const StepBin& bin : strip.group.bins) {
    const double x = rows.x_of((bin.first_step + bin.last_step) / 2);
    const char* pen = line.empty() ? "M" : "L";
    line += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.median_s)));
    upper += fmt::format("{}{} {}", pen, decimal(x), decimal(strip.y_of(bin.max_s)));
    lower = fmt::format("L{} {}", decimal(x), decimal(strip.y_of(bin.min_s))) + lower;
    if (bin.max_s > strip.end)
      beyond += fmt::format("M{} {}l3 -5l3 5", decimal(x - 3), decimal(strip.area.top + 5));
  }
  svg_path(markup, upper + lower + "z", "band");
  svg_path(markup, line, "series thin");
  for (const double step : strip.group.saves) {
    saves += fmt::format("M{} {}v5", decimal(rows.x_of(step)), decimal(strip.area.bottom));
  }
  if (!saves.empty()) svg_path(markup, saves, "extreme");
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
  const auto bins = chart.groups | std::views::transform(&StepGroup::bins) | std::views::join;
  const double last_step = largest(bins, 0.0, &StepBin::last_step);
  const Unit steps{"", 1};
  RowPanel rows(medium.row_width, chart.groups.size(), {medium.stretch * kStripHeight},
                axis_to(last_step + 1, steps, 6), "step");
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
  return rows.finish(
      {"svg-course", "Step times along the run",
       "A strip for each run: median and range of neighbouring steps. " + chart.caption.title},
      &steps);
}

// ---- gradient buckets ----

constexpr double kTimelineGap = 8, kTimelineHeight = 12, kMostLabel = 150;

struct Span {
  const char* name;
  double BucketBar::*begin;
  double BucketBar::*end;
};
// Behind the others, the backward pass that hides them; their order is that of docs/metrics.md.
constexpr Span kSpans[] = {{"backward", &BucketBar::backward_begin_s, &BucketBar::backward_end_s},
                           {"queueing", &BucketBar::ready_s, &BucketBar::start_s},
                           {"waiting for other ranks", &BucketBar::start_s, &BucketBar::arrived_s},
                           {"transfer", &BucketBar::arrived_s, &BucketBar::end_s}};

std::string span_class(std::size_t span) { return fmt::format("b{}", span); }

std::string bucket_tip(const BucketGroup& group, const BucketBar& bar, const Unit& unit) {
  std::string tip = fmt::format(
      "{}\n{}\n{}\nready {}", group.name, bar.label,
      with_unit(static_cast<double>(bar.bytes), memory_unit(static_cast<double>(bar.bytes))),
      with_unit(bar.ready_s, unit));
  for (const Span& span : kSpans) {
    tip += fmt::format("\n{} {}", span.name, with_unit(bar.*span.end - bar.*span.begin, unit));
  }
  return tip;
}

void draw_bucket(const BucketGroup& group, const BucketBar& bar, const Unit& unit, RowPanel& rows) {
  Markup& markup = rows.markup();
  const Area row = rows.row(bar.label);
  for (std::size_t i = 0; i < std::size(kSpans); ++i) {
    const double from = rows.x_of(bar.*kSpans[i].begin), to = rows.x_of(bar.*kSpans[i].end);
    if (i == 0 && to <= from) continue;  // it is not known
    const double margin = i == 0 ? kTimelineGap / 2 : 0;
    open_entry(markup, i, span_class(i));
    svg_rect(markup, {from, row.top - margin}, to - from, row.height() + 2 * margin, "part", {});
    markup.close();
  }
  const double ready = rows.x_of(bar.ready_s);
  svg_line(markup, {ready, row.top - 2}, {ready, row.bottom + 2}, "whole");
  const std::string tip = bucket_tip(group, bar, unit);
  svg_rect(markup, {row.left, row.top - 3}, row.width(), row.height() + 6, "hit", tip);
  rows.tell(tip);
}

Panel bucket_panel(const BucketsChart& chart, std::size_t index, const Medium& medium) {
  const BucketGroup& group = chart.groups[index];
  const Unit unit = time_unit(chart.end_s);
  const double label =
      largest(group.bars, 0.0, [](const BucketBar& bar) { return text_width(bar.label); });
  RowPanel rows(
      medium.row_width, group.bars.size(),
      {medium.stretch * kTimelineHeight, 0, kTimelineGap, std::min(label + 10, kMostLabel),
       fmt::format("{}, median step {}", group.name, with_unit(group.step_s, unit))},
      axis_to(chart.end_s, unit, 5), unit.name + " since the step's begin");
  for (const BucketBar& bar : group.bars) draw_bucket(group, bar, unit, rows);
  if (group.step_s > 0) {
    const double step = rows.x_of(group.step_s);
    open_entry(rows.markup(), std::size(kSpans), {});
    svg_line(rows.markup(), {step, rows.area().top}, {step, rows.area().bottom}, "step");
    rows.markup().close();
  }
  return rows.finish({fmt::format("svg-buckets-{}", index), "Gradient buckets of " + group.name,
                      "A row for each rank and bucket: when its gradients were ready, how long it "
                      "waited and travelled. " +
                          chart.caption.title},
                     &unit);
}

}  // namespace

Picture stacked_picture(const StackedChart& chart, const Medium& medium) {
  Picture picture{chart};
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    picture.legend.push_back({chart.parts[i], part_class(chart, i)});
  }
  picture.caption.notes.push_back("vertical stroke, and the figure beside each name: " +
                                  chart.whole);
  picture.panels.push_back(stacked_panel(chart, medium));
  return picture;
}

Picture steps_picture(const StepsChart& chart, const Medium& medium) {
  const Unit unit = time_unit(chart.shown_s);
  Picture picture{chart, line_legend(chart.series)};
  picture.caption.notes.emplace_back("all strips have one scale, stated beside their names");
  picture.panels.push_back(distribution_panel(chart, unit, medium));
  picture.panels.push_back(course_panel(chart, unit, medium));
  return picture;
}

Picture buckets_picture(const BucketsChart& chart, const Medium& medium) {
  Picture picture{chart};
  for (std::size_t i = 0; i < std::size(kSpans); ++i) {
    picture.legend.push_back({kSpans[i].name, span_class(i)});
  }
  picture.legend.push_back({"median step", {}, LegendEntry::Mark::dashed});
  picture.caption.notes.emplace_back("vertical stroke: the bucket's last gradient is ready");
  for (std::size_t i = 0; i < chart.groups.size(); ++i) {
    picture.panels.push_back(bucket_panel(chart, i, medium));
  }
  return picture;
}

}  // namespace ddpbench::report::pictures
