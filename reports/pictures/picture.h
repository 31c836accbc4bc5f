// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of reports as SVG, with one drawing for both uses: `ddpbench html` puts the panels into
// its page, `ddpbench chart -o` writes each picture as a file of its own.
// reports/charts/chart_data.h has the contents; pictures.css has the looks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/pictures/markup.h"
#include "reports/pictures/svg.h"

namespace ddpbench::report::pictures {

// Pages have narrow panels beside each other. In a file, rows get its whole width.
enum class Medium : std::uint8_t { page, file };

// Entry i of a legend names the shapes inside of open_entry(markup, i, ...).
struct LegendEntry {
  enum class Mark : std::uint8_t { filled, line, dotted, dashed };
  std::string name;
  std::string classes;  // "s2" for a line, "p0" for a filled part
  Mark mark = Mark::filled;
  std::size_t marker = 0;  // style of the marker of a line
};

struct Panel {
  SvgName name;
  double width = kPanelWidth, height = 0;
  std::string shapes;  // well-formed markup for an <svg> or <g> of this size
};

struct Picture {
  std::string id, heading;
  ChartCaption caption;  // its notes also explain the marks
  std::vector<LegendEntry> legend;
  std::vector<Panel> panels;  // not empty
};

// REQUIRES: chart.empty_reason is empty.
Picture scaling_picture(const ScalingChart& chart);
Picture breakdown_picture(const StackedChart& chart, Medium medium);
Picture memory_picture(const StackedChart& chart, Medium medium);
Picture steps_picture(const StepsChart& chart, Medium medium);
Picture buckets_picture(const BucketsChart& chart, Medium medium);

// Shared by stacked bars and the tables beside them.
double longest_bar(const StackedChart& chart);
std::string bar_name(const StackedBar& bar);  // "ddp on 4: primary"

// A complete SVG document: title, legend, panels and notes on white, readable without colour. It
// runs no script and loads nothing, and text of reports is never markup in it.
std::string picture_file(const Picture& picture);

// Draws the sample of an entry, kSwatchWidth x kSwatchHeight at the origin.
inline constexpr double kSwatchWidth = 26, kSwatchHeight = 12;
void write_swatch(Markup& markup, const LegendEntry& entry);
// Writes the <defs> of the patterns of pictures.css for parts; needed once in a document.
void write_hatches(Markup& markup);

// Opens a group that belongs to an entry of the legend. markup.close() closes it.
void open_entry(Markup& markup, std::size_t entry, const std::string& classes);
std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series);
double panel_width(Medium medium);

// pictures.css for a file: its variables are replaced by their light values
// (cmake/EmbedPageAssets.cmake), as some programs that draw SVG do not know variables.
extern const std::string_view kFileStyle;

}  // namespace ddpbench::report::pictures
