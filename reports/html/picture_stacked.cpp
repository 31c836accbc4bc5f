// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Bars made of parts: the time of a step, the memory of a device.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "reports/html/picture.h"
#include "reports/html/picture_rows.h"

namespace ddpbench::report::html {
namespace {

constexpr double kBarHeight = 16;
constexpr std::size_t kMostInPanel = 6;  // bars; more go to two panels, with the same axis
constexpr std::size_t kPartClasses = 8;  // as in report.css
constexpr double kShown = 0.15;          // units of length; a part below that is not there

// What one kind of stacked chart is about.
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

double largest_of(const StackedChart& chart) {
  double largest = 0;
  for (const StackedBar& bar : chart.bars) largest = std::max({largest, bar.whole, sum_of(bar)});
  return largest;
}

std::string name_of(const StackedBar& bar) {
  return bar.label.empty() ? bar.group : fmt::format("{}: {}", bar.group, bar.label);
}

std::string tip_of(const StackedChart& chart, const StackedBar& bar, std::size_t part,
                   const Unit& unit) {
  const double sum = sum_of(bar);
  return fmt::format("{}\n{}: {}\n{:.1f} % of all parts", name_of(bar), chart.parts[part],
                     with_unit(bar.parts[part], unit), sum > 0 ? 100 * bar.parts[part] / sum : 0.0);
}

void draw_bar(Markup& page, const StackedChart& chart, const StackedBar& bar, const Unit& unit,
              RowPicture& rows) {
  const Area area =
      rows.row(name_of(bar), with_unit(bar.whole, unit), chart.series[bar.series].style);
  double before = 0;
  for (std::size_t i = 0; i < bar.parts.size(); ++i) {
    const double from = rows.x_of(before), to = rows.x_of(before + bar.parts[i]);
    before += bar.parts[i];
    if (to - from < kShown) continue;
    open_entry(page, i, part_class(chart, i));
    svg_rect(page, {from, area.top}, to - from, area.height(), "part", tip_of(chart, bar, i, unit));
    page.close();
  }
  const double whole = rows.x_of(bar.whole);
  svg_line(page, {whole, area.top - 2}, {whole, area.bottom + 2}, "whole");
}

// Bars of the first panel: about half, not ending within a group.
std::size_t first_panel(const std::vector<StackedBar>& bars) {
  if (bars.size() <= kMostInPanel) return bars.size();
  std::size_t end = (bars.size() + 1) / 2;
  while (end < bars.size() && bars[end].group == bars[end - 1].group) ++end;
  return end;
}

void draw_panel(Markup& page, const StackedChart& chart, const StackedWords& words,
                std::size_t begin, std::size_t end) {
  if (begin == end) return;
  RowPicture rows(page,
                  {fmt::format("svg-{}-{}", words.id, begin), words.heading,
                   words.description + " " + chart.caption.title},
                  end - begin, kBarHeight);
  rows.axis(axis_to(largest_of(chart), words.unit, 5), words.unit.name);
  for (std::size_t i = begin; i < end; ++i) draw_bar(page, chart, chart.bars[i], words.unit, rows);
  rows.finish();
}

Table data_of(const StackedChart& chart, const StackedWords& words) {
  Table table{words.heading + ", in " + words.unit.name, {{"bar", true}}, {}, {}};
  for (const std::string& part : chart.parts) table.columns.push_back({part});
  table.columns.push_back({chart.whole});
  for (const StackedBar& bar : chart.bars) {
    std::vector<Cell> row = {cell(name_of(bar))};
    for (const double part : bar.parts) row.push_back(cell(part, fixed(part / words.unit.size, 2)));
    row.push_back(cell(bar.whole, fixed(bar.whole / words.unit.size, 2)));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void write_stacked(Markup& page, const StackedChart& chart, const StackedWords& words) {
  if (!chart.empty_reason.empty()) return write_no_picture(page, words.heading, chart.empty_reason);
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < chart.parts.size(); ++i) {
    legend.push_back({chart.parts[i], part_class(chart, i)});
  }
  ChartCaption caption = chart.caption;
  caption.notes.push_back("vertical stroke, and the figure beside each name: " + chart.whole);
  const auto draw = [&](Markup& to) {
    const std::size_t middle = first_panel(chart.bars);
    draw_panel(to, chart, words, 0, middle);
    draw_panel(to, chart, words, middle, chart.bars.size());
  };
  write_picture(page, {words.id, words.heading, caption, legend, draw, data_of(chart, words)});
}

}  // namespace

void write_breakdown(Markup& page, const StackedChart& chart) {
  write_stacked(
      page, chart,
      {"breakdown", "Where a step goes",
       "A bar for each run, made of the phases of a training step.", time_unit(largest_of(chart))});
}

void write_memory(Markup& page, const StackedChart& chart) {
  write_stacked(page, chart,
                {"memory", "Memory of a device",
                 "Bars for the primary device and others, made of memory categories.",
                 memory_unit(largest_of(chart))});
}

}  // namespace ddpbench::report::html
