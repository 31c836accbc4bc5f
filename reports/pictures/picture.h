// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of reports as SVG, drawn once for both uses: `ddpbench html` puts their panels into its
// page, `ddpbench chart -o` writes each picture as a file of its own. What they show is
// reports/charts/chart_data.h's to say; pictures.css says how it looks.
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

// A page sets narrow panels beside each other. A file of its own gives rows its whole width.
enum class Medium : std::uint8_t { page, file };

// Entry i of a legend names everything that stands in open_entry(markup, i, ...).
struct LegendEntry {
  enum class Mark : std::uint8_t { filled, line, dotted, dashed };
  std::string name;
  std::string classes;  // "s2" of a line, "p0" of a filled part
  Mark mark = Mark::filled;
  std::size_t marker = 0;  // style of a line's marker
};

struct Panel {
  SvgName name;
  double width = kPanelWidth, height = 0;
  std::string shapes;  // markup that is well-formed, to stand in an <svg> or <g> of this size
};

struct Picture {
  std::string id, heading;
  ChartCaption caption;  // its notes say what the marks mean, too
  std::vector<LegendEntry> legend;
  std::vector<Panel> panels;  // not empty
};

// REQUIRES: chart.empty_reason is empty.
Picture scaling_picture(const ScalingChart& chart);
Picture breakdown_picture(const StackedChart& chart, Medium medium);
Picture memory_picture(const StackedChart& chart, Medium medium);
Picture steps_picture(const StepsChart& chart, Medium medium);
Picture buckets_picture(const BucketsChart& chart, Medium medium);

// What the tables beside stacked bars share with them.
double longest_bar(const StackedChart& chart);
std::string bar_name(const StackedBar& bar);  // "ddp on 4: primary"

// An SVG document that needs nothing around it: title, legend, panels and notes on white, readable
// without colour. It runs no script and loads nothing; text of reports is text there.
std::string picture_file(const Picture& picture);

// The sample of an entry, kSwatchWidth x kSwatchHeight at the origin.
inline constexpr double kSwatchWidth = 26, kSwatchHeight = 12;
void write_swatch(Markup& markup, const LegendEntry& entry);
// <defs> of the patterns with which pictures.css fills some parts; once a document.
void write_hatches(Markup& markup);

// A group that belongs to an entry of the legend; closed by markup.close().
void open_entry(Markup& markup, std::size_t entry, const std::string& classes);
std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series);
double panel_width(Medium medium);

// pictures.css for a document of its own: its variables are replaced by their light values
// (cmake/EmbedPageAssets.cmake), as not every program that draws SVG knows variables.
extern const std::string_view kFileStyle;

}  // namespace ddpbench::report::pictures
