// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The pictures of a page: each a <figure> with a legend that switches its lines on and off, one or
// more <svg> panels, notes, and the same data as a table. What they show is
// reports/charts/chart_data.h's to say. Private to reports/.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/html/markup.h"
#include "reports/html/svg.h"
#include "reports/html/table.h"

namespace ddpbench::report::html {

// Entry i switches everything in the figure that stands in open_entry(page, i, ...).
struct LegendEntry {
  std::string name;
  std::string classes;     // "s2" of a line, "p0" of a filled part
  bool line = false;       // drawn as a line with a marker
  std::size_t marker = 0;  // style of that marker
};

struct Picture {
  std::string id, heading;
  ChartCaption caption;
  std::vector<LegendEntry> legend;
  std::function<void(Markup&)> panels;
  Table data;
};
void write_picture(Markup& page, const Picture& picture);
// The patterns that report.css fills some parts with; once a page.
void write_hatches(Markup& page);
// For a chart with nothing to draw: the heading, and why.
void write_no_picture(Markup& page, const std::string& heading, const std::string& why);

// A group that belongs to entry `entry` of the legend; closed by page.close().
void open_entry(Markup& page, std::size_t entry, const std::string& classes);

std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series);

void write_scaling(Markup& page, const ScalingChart& chart);
void write_breakdown(Markup& page, const StackedChart& chart);
void write_memory(Markup& page, const StackedChart& chart);
void write_steps(Markup& page, const StepsChart& chart);
void write_buckets(Markup& page, const BucketsChart& chart);

}  // namespace ddpbench::report::html
