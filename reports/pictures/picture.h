// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of reports as SVG, with one drawing for both uses: `ddpbench html` puts the panels into
// its page, `ddpbench chart -o` writes each picture as a file of its own.
// reports/charts/chart_data.h has the contents; pictures.css has the looks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/chart_data.h"
#include "reports/pictures/markup.h"
#include "reports/pictures/svg.h"

namespace ddpbench::report {
struct History;  // metrics/history.h
}

namespace ddpbench::report::pictures {

// For what a picture is laid out. Pages have narrow panels beside each other. In a file, rows get
// its whole width.
struct Medium {
  double plot_width = kPanelWidth;  // of plots that stand beside each other
  double row_width = kPanelWidth;   // of rows and timelines
  double stretch = 1;               // of the heights of plots, bars and strips, without their words
  static const Medium page, file;
};
inline constexpr double kGutter = 32;                             // between panels of a file
inline constexpr double kSheetWidth = 2 * kPanelWidth + kGutter;  // of a file, without its edges
inline constexpr Medium Medium::page = {kPanelWidth, kPanelWidth, 1};
inline constexpr Medium Medium::file = {kPanelWidth, kSheetWidth, 1};

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
  std::string shapes;                    // well-formed markup for an <svg> or <g> of this size
  std::vector<std::string> values = {};  // of its shapes, for readers who do not see them
  // Of a panel that a page can zoom into: where its horizontal axis lies, from left to right, and
  // the end of the labels, which begin at 0; else empty.
  std::string zoom = {};
};

// The notes of its caption also explain the marks.
struct Picture : ChartHead {
  std::vector<LegendEntry> legend = {};
  std::vector<Panel> panels = {};  // not empty
};

// REQUIRES: chart.empty_reason is empty.
Picture scaling_picture(const ScalingChart& chart, const Medium& medium);
Picture stacked_picture(const StackedChart& chart, const Medium& medium);
Picture steps_picture(const StepsChart& chart, const Medium& medium);
Picture buckets_picture(const BucketsChart& chart, const Medium& medium);
Picture accuracy_picture(const AccuracyChart& chart, const Medium& medium);
Picture bandwidth_picture(const BandwidthChart& chart, const Medium& medium);
// Step times over commits: a panel for each setting. Axes begin at the least value and not at 0, as
// a note says: changes of some per cent must show. REQUIRES: the history has lines.
Picture history_picture(const History& history);

// A chart that is not laid out yet.
struct Drawing {
  std::string heading, empty_reason;  // why there is nothing to draw; then `picture` is not called
  std::function<Picture(const Medium&)> picture;
};
// All kinds of pictures of reports, by the words of --kind, in the order of a page. The axis is
// that of kind accuracy.
struct PictureKind {
  std::string_view name;
  Drawing (*draw)(std::span<const Report> reports, CourseAxis axis);
};
std::span<const PictureKind> picture_kinds();

// A complete SVG document: title, legend, panels and notes on white, readable without colour. It
// runs no script and loads nothing, and text of reports is never markup in it.
std::string picture_file(const Picture& picture);

// Pixels, of 1/96 inch each in print.
struct PictureSize {
  int width = 0, height = 0;
};
// A document of exactly this size: `make` lays the picture out for its width, and what shows values
// is stretched to its height; type keeps its size. Throws ConfigError where that is too low for the
// picture, with the least height.
std::string picture_file(const std::function<Picture(const Medium&)>& make,
                         const PictureSize& size);

// Draws the sample of an entry, kSwatchWidth x kSwatchHeight at the origin.
inline constexpr double kSwatchWidth = 26, kSwatchHeight = 12;
void write_swatch(Markup& markup, const LegendEntry& entry);
// Writes the <defs> of the patterns of pictures.css for parts; needed once in a document.
void write_hatches(Markup& markup);

// Opens a group that belongs to an entry of the legend. markup.close() closes it.
void open_entry(Markup& markup, std::size_t entry, const std::string& classes);
std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series);
// The classes for colour and dash of a line, "s2 v1", and its marker: series of one style share the
// colour.
std::string line_class(const ChartSeries& series);
std::size_t line_marker(const ChartSeries& series);

// pictures.css for a file: its variables are replaced by their light values
// (cmake/EmbedPageAssets.cmake), as some programs that draw SVG do not know variables.
extern const std::string_view kFileStyle;

}  // namespace ddpbench::report::pictures
