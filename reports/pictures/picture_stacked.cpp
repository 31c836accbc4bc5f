// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of stacked bars: the time of a step, the memory of a device.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reports/pictures/picture_rows.h"

namespace ddpbench::report::pictures {
namespace {

constexpr double kStackHeight = 16;
constexpr std::size_t kMostInPanel = 6;  // bars; a page shows more in two panels with one axis
constexpr std::size_t kPartClasses = 8;  // as in pictures.css
constexpr double kShown = 0.15;          // units of length; shorter parts are not drawn

// The words of one kind of stacked chart.
struct StackedWords {
  std::string id, heading, description;
  Unit unit;
};

std::string part_class(const StackedChart& chart, std::size_t part) {
  return fmt::format("p{}", chart.part_styles[part] % kPartClasses);
}

double sum_of(const StackedBar& bar) {
  return std::accumulate(bar.parts.begin(), bar.parts.end(), 0.0);
}

std::string part_tip(const StackedChart& chart, const StackedBar& bar, std::size_t part,
                     const Unit& unit) {
  const double sum = sum_of(bar);
  return fmt::format("{}\n{}: {}\n{:.1f} % of all parts", bar_name(bar), chart.parts[part],
                     with_unit(bar.parts[part], unit), sum > 0 ? 100 * bar.parts[part] / sum : 0.0);
}

void draw_stack(const StackedChart& chart, const StackedBar& bar, const Unit& unit,
                RowPanel& rows) {
  Markup& markup = rows.markup();
  const Area area = rows.row(bar_name(bar), with_unit(bar.whole, unit), chart.series[bar.series]);
  double before = 0;
  for (std::size_t i = 0; i < bar.parts.size(); ++i) {
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
}

// The number of bars in the first panel: about half, without splitting a group.
std::size_t first_panel(const std::vector<StackedBar>& bars) {
  if (bars.size() <= kMostInPanel) return bars.size();
  std::size_t end = (bars.size() + 1) / 2;
  while (end < bars.size() && bars[end].group == bars[end - 1].group) ++end;
  return end;
}

Panel stacked_panel(const StackedChart& chart, const StackedWords& words, double width,
                    double stretch, std::size_t begin, std::size_t end) {
  RowPanel rows({fmt::format("svg-{}-{}", words.id, begin), words.heading,
                 words.description + " " + chart.caption.title},
                width, end - begin, stretch * kStackHeight);
  rows.axis(axis_to(std::max(longest_bar(chart), chart.end), words.unit, 5), words.unit.name);
  for (std::size_t i = begin; i < end; ++i) draw_stack(chart, chart.bars[i], words.unit, rows);
  return rows.finish();
}

Picture stacked_picture(const StackedChart& chart, const StackedWords& words,
                        const Medium& medium) {
  Picture picture{words.id, words.heading, chart.caption, {}, {}};
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    picture.legend.push_back({chart.parts[i], part_class(chart, i)});
  }
  picture.caption.notes.push_back("vertical stroke, and the figure beside each name: " +
                                  chart.whole);
  const std::size_t count = chart.bars.size();
  const std::size_t middle = medium.splits_rows ? first_panel(chart.bars) : count;
  const auto add = [&](std::size_t begin, std::size_t end) {
    picture.panels.push_back(
        stacked_panel(chart, words, medium.row_width, medium.stretch, begin, end));
  };
  add(0, middle);
  if (middle < count) add(middle, count);
  return picture;
}

}  // namespace

double longest_bar(const StackedChart& chart) {
  double largest = 0;
  for (const StackedBar& bar : chart.bars) largest = std::max({largest, bar.whole, sum_of(bar)});
  return largest;
}

std::string bar_name(const StackedBar& bar) {
  return bar.label.empty() ? bar.group : fmt::format("{}: {}", bar.group, bar.label);
}

Picture breakdown_picture(const StackedChart& chart, const Medium& medium) {
  return stacked_picture(
      chart,
      {"breakdown", "Where a step goes",
       "A bar for each run, made of the phases of a training step.", time_unit(longest_bar(chart))},
      medium);
}

Picture memory_picture(const StackedChart& chart, const Medium& medium) {
  return stacked_picture(chart,
                         {"memory", "Memory of a device",
                          "Bars for the primary device and others, made of memory categories.",
                          memory_unit(longest_bar(chart))},
                         medium);
}

Unit share_unit(double) { return {"%", 0.01}; }

Picture busy_picture(const StackedChart& chart, const Medium& medium) {
  return stacked_picture(
      chart,
      {"busy", "How busy the devices are",
       "A bar for each device, made of the work of a training step.", share_unit(1)},
      medium);
}

}  // namespace ddpbench::report::pictures
