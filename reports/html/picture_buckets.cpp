// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The timeline of gradient buckets within a step, a panel a run.
#include <fmt/format.h>

#include <algorithm>

#include "reports/html/picture.h"

namespace ddpbench::report::html {
namespace {

constexpr double kRowHeight = 20, kBarHeight = 12;
constexpr double kTop = 24, kBelow = 38;
constexpr double kMostLabel = 150;

struct Span {
  const char* name;
  double BucketBar::*begin;
  double BucketBar::*end;
};
// In the order of docs/metrics.md.
constexpr Span kSpans[] = {{"queueing", &BucketBar::ready_s, &BucketBar::start_s},
                           {"waiting for other ranks", &BucketBar::start_s, &BucketBar::arrived_s},
                           {"transfer", &BucketBar::arrived_s, &BucketBar::end_s}};

std::string span_class(std::size_t span) { return fmt::format("b{}", span); }

double largest_of(const BucketGroup& group) {
  double largest = group.step_s;
  for (const BucketBar& bar : group.bars) largest = std::max({largest, bar.ready_s, bar.end_s});
  return largest;
}

std::string tip_of(const BucketGroup& group, const BucketBar& bar, const Unit& unit) {
  std::string tip = fmt::format(
      "{}\n{}\n{}\nready {}", group.name, bar.label,
      with_unit(static_cast<double>(bar.bytes), memory_unit(static_cast<double>(bar.bytes))),
      with_unit(bar.ready_s, unit));
  for (const Span& span : kSpans) {
    tip += fmt::format("\n{} {}", span.name, with_unit(bar.*span.end - bar.*span.begin, unit));
  }
  return tip;
}

void draw_bar(Markup& page, const BucketGroup& group, const BucketBar& bar, const Area& row,
              const Axis& axis, const Unit& unit) {
  const auto x_of = [&](double value) {
    return row.left + row.width() * std::clamp(axis.position(value), 0.0, 1.0);
  };
  svg_text(page, {row.left - 8, row.top + 11}, Anchor::end, "row",
           fitted(bar.label, kMostLabel - 10));
  for (std::size_t i = 0; i < std::size(kSpans); ++i) {
    const double from = x_of(bar.*kSpans[i].begin), to = x_of(bar.*kSpans[i].end);
    open_entry(page, i, span_class(i));
    svg_rect(page, {from, row.top}, to - from, row.height(), "part", {});
    page.close();
  }
  const double ready = x_of(bar.ready_s);
  svg_line(page, {ready, row.top - 2}, {ready, row.bottom + 2}, "whole");
  svg_rect(page, {row.left, row.top - 3}, row.width(), row.height() + 6, "hit",
           tip_of(group, bar, unit));
}

void draw_group(Markup& page, const BucketsChart& chart, std::size_t index) {
  const BucketGroup& group = chart.groups[index];
  const Unit unit = time_unit(largest_of(group));
  double label = 0;
  for (const BucketBar& bar : group.bars) label = std::max(label, text_width(bar.label));
  const double height = static_cast<double>(group.bars.size()) * kRowHeight;
  const Area area{std::min(label + 10, kMostLabel), kTop, kWidth - 1, kTop + height};
  open_svg(page,
           {fmt::format("svg-buckets-{}", index), "Gradient buckets of " + group.name,
            "A row for each rank and bucket: when its gradients were ready, how long it waited and "
            "travelled. " +
                chart.caption.title},
           kTop + height + kBelow);
  svg_text(
      page, {0, 13}, Anchor::start, "row",
      fitted(fmt::format("{}, median step {}", group.name, with_unit(group.step_s, unit)), kWidth));
  const Axis axis = axis_to(largest_of(group), unit, 5);
  draw_x_axis(page, area, axis, unit.name + " since the step's begin");
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    const double top = area.top + static_cast<double>(i) * kRowHeight + 4;
    draw_bar(page, group, group.bars[i], {area.left, top, area.right, top + kBarHeight}, axis,
             unit);
  }
  page.close();
}

Table data_of(const BucketsChart& chart) {
  Table table{
      "Gradient buckets, in ms since the step's begin",
      {{"run", true}, {"bucket", true}, {"bytes"}, {"ready"}, {"start"}, {"all arrived"}, {"end"}},
      {},
      {}};
  for (const BucketGroup& group : chart.groups) {
    for (const BucketBar& bar : group.bars) {
      const auto bytes = static_cast<double>(bar.bytes);
      std::vector<Cell> row = {cell(group.name), cell(bar.label), cell(bytes, fixed(bytes, 0))};
      for (const double value : {bar.ready_s, bar.start_s, bar.arrived_s, bar.end_s}) {
        row.push_back(cell(value, fixed(1e3 * value, 3)));
      }
      table.rows.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

void write_buckets(Markup& page, const BucketsChart& chart) {
  if (!chart.empty_reason.empty()) {
    return write_no_picture(page, "Gradient buckets", chart.empty_reason);
  }
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < std::size(kSpans); ++i) {
    legend.push_back({kSpans[i].name, span_class(i)});
  }
  ChartCaption caption = chart.caption;
  caption.notes.emplace_back("vertical stroke: the bucket's last gradient is ready");
  write_picture(page, {"buckets", "Gradient buckets", caption, legend,
                       [&](Markup& to) {
                         for (std::size_t i = 0; i < chart.groups.size(); ++i) {
                           draw_group(to, chart, i);
                         }
                       },
                       data_of(chart)});
}

}  // namespace ddpbench::report::html
