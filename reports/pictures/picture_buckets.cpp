// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The timeline of the gradient buckets in a step, with a panel for each run.
#include <fmt/format.h>

#include <algorithm>

#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kTimelineGap = 8, kTimelineHeight = 12;
constexpr double kNameRoom = 24, kBelow = 38;  // above and below the rows
constexpr double kMostLabel = 150;

struct Span {
  const char* name;
  double BucketBar::*begin;
  double BucketBar::*end;
};
// The order is that of docs/metrics.md.
constexpr Span kSpans[] = {{"queueing", &BucketBar::ready_s, &BucketBar::start_s},
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

void draw_bucket(Markup& markup, const BucketGroup& group, const BucketBar& bar, const Area& row,
                 const Axis& axis, const Unit& unit) {
  const auto x_of = [&](double value) {
    return row.left + row.width() * std::clamp(axis.position(value), 0.0, 1.0);
  };
  svg_text(markup, {row.left - 8, row.top + row.height() / 2 + 5}, Anchor::end, "row",
           fitted(bar.label, kMostLabel - 10));
  for (std::size_t i = 0; i < std::size(kSpans); ++i) {
    const double from = x_of(bar.*kSpans[i].begin), to = x_of(bar.*kSpans[i].end);
    open_entry(markup, i, span_class(i));
    svg_rect(markup, {from, row.top}, to - from, row.height(), "part", {});
    markup.close();
  }
  const double ready = x_of(bar.ready_s);
  svg_line(markup, {ready, row.top - 2}, {ready, row.bottom + 2}, "whole");
  svg_rect(markup, {row.left, row.top - 3}, row.width(), row.height() + 6, "hit",
           bucket_tip(group, bar, unit));
}

Panel bucket_panel(const BucketsChart& chart, std::size_t index, const Medium& medium) {
  const BucketGroup& group = chart.groups[index];
  const Unit unit = time_unit(chart.end_s);
  const double width = medium.row_width, bar_height = medium.stretch * kTimelineHeight;
  const double line_height = kTimelineGap + bar_height;
  double label = 0;
  for (const BucketBar& bar : group.bars) label = std::max(label, text_width(bar.label));
  const double height = static_cast<double>(group.bars.size()) * line_height;
  const Area area{std::min(label + 10, kMostLabel), kNameRoom, width - 1, kNameRoom + height};
  Markup markup;
  svg_text(
      markup, {0, 13}, Anchor::start, "row",
      fitted(fmt::format("{}, median step {}", group.name, with_unit(group.step_s, unit)), width));
  const Axis axis = axis_to(chart.end_s, unit, 5);
  draw_x_axis(markup, area, axis, unit.name + " since the step's begin");
  for (std::size_t i = 0; i < group.bars.size(); ++i) {
    const double top = area.top + static_cast<double>(i) * line_height + 4;
    draw_bucket(markup, group, group.bars[i], {area.left, top, area.right, top + bar_height}, axis,
                unit);
  }
  if (group.step_s > 0) {
    const double step = area.left + area.width() * axis.position(group.step_s);
    open_entry(markup, std::size(kSpans), {});
    svg_line(markup, {step, area.top}, {step, area.bottom}, "step");
    markup.close();
  }
  return {{fmt::format("svg-buckets-{}", index), "Gradient buckets of " + group.name,
           "A row for each rank and bucket: when its gradients were ready, how long it waited and "
           "travelled. " +
               chart.caption.title},
          width,
          kNameRoom + height + kBelow,
          markup.take(),
          ZoomAxis{area.left, area.right, axis.end / unit.size}};
}

}  // namespace

Picture buckets_picture(const BucketsChart& chart, const Medium& medium) {
  Picture picture{"buckets", "Gradient buckets", chart.caption, {}, {}};
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
