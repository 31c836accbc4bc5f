// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/ranges.h"

namespace ddpbench::report::pictures {
namespace {

// The layout of a picture in a file of its own. Fonts are as in pictures.css.
constexpr double kEdge = 20;
constexpr double kTitleFont = 17, kNoteFont = 11, kLeading = 1.4;
constexpr double kBold = 1.15;  // width of bold type / that of normal type
constexpr double kSwatchGap = 8, kEntryGap = 22, kLegendLine = 22;
constexpr std::size_t kMostLines = 60;  // of one text: a note names all that is not drawn
constexpr double kLeastStretch = 0.4;   // rows with their words do not get closer
constexpr double kLeastPlot = 300;      // plots narrower than this do not stand beside each other
constexpr std::size_t kVariants = 5;    // dashes of pictures.css beside a style's own

// Strokes over the colour of a part, so that neighbours differ without colour. The short strokes of
// slanted hatches continue them over the corners.
struct Hatch {
  const char* part;
  const char* path;
};
constexpr Hatch kHatches[] = {{"p0", "M3 -1V7"},
                              {"p3", "M-1 7L7 -1M-1 1L1 -1M5 7L7 5"},
                              {"p4", "M-1 3H7"},
                              {"p5", "M-1 -1L7 7M5 -1L7 1M-1 5L1 7"},
                              {"p6", "M2 2h2v2h-2z"}};

// Writes the sheet of a file from top to bottom.
class Sheet {
 public:
  Sheet(Markup& markup, double width) : markup_(markup), width_(width) {}

  double height() const { return y_ + kEdge; }
  void skip(double length) { y_ += length; }

  void text(const std::string& text, double font, std::string_view classes, double wider = 1) {
    const double width = width_ * kFont / font / wider;
    for (const std::string& line : wrapped(text, width, kMostLines)) {
      svg_text(markup_, {kEdge, y_ + font}, Anchor::start, classes, line);
      y_ += font * kLeading;
    }
  }

  void legend(const std::vector<LegendEntry>& entries) {
    double x = 0;
    for (const LegendEntry& entry : entries) {
      const std::string name = fitted(entry.name, width_ - kSwatchWidth - kSwatchGap);
      const double width = kSwatchWidth + kSwatchGap + text_width(name);
      if (x > 0 && x + width > width_) {
        x = 0;
        y_ += kLegendLine;
      }
      open_at(kEdge + x, y_);
      write_swatch(markup_, entry);
      svg_text(markup_, {kSwatchWidth + kSwatchGap, kSwatchHeight - 2}, Anchor::start, "", name);
      markup_.close();
      x += width + kEntryGap;
    }
    if (!entries.empty()) y_ += kLegendLine;
  }

  void panels(const std::vector<Panel>& panels) {
    double x = 0, lowest = 0;
    for (const Panel& panel : panels) {
      if (x > 0 && x + panel.width > width_) {
        x = 0;
        y_ += lowest + kEdge;
        lowest = 0;
      }
      open_at(kEdge + x, y_);
      markup_.trusted(panel.shapes).close();
      x += panel.width + kGutter;
      lowest = std::max(lowest, panel.height);
    }
    y_ += lowest;
  }

 private:
  void open_at(double x, double y) {
    markup_.open("g", {{"transform", fmt::format("translate({} {})", decimal(x), decimal(y))}});
  }

  Markup& markup_;
  double width_;  // without the edges
  double y_ = kEdge;
};

std::string description_of(const Picture& picture) {
  return joined(picture.panels, " ", [](const Panel& panel) {
    return panel.name.title + ". " + panel.name.description;
  });
}

// The shapes and the height of a sheet. `width`: without the edges.
std::pair<std::string, double> lay_out(const Picture& picture, double width) {
  Markup body;
  Sheet sheet(body, width);
  sheet.text(picture.caption.title, kTitleFont, "title", kBold);
  sheet.text(picture.caption.subtitle, kFont, "tick");
  sheet.skip(10);
  sheet.legend(picture.legend);
  sheet.skip(4);
  sheet.panels(picture.panels);
  sheet.skip(12);
  for (const std::string& note : picture.caption.notes) sheet.text(note, kNoteFont, "note");
  return {body.take(), sheet.height()};
}

// `sheet_width` and `sheet_height`: with the edges.
std::string document_of(const Picture& picture, const std::string& body, double sheet_width,
                        double sheet_height) {
  const std::string width = decimal(sheet_width), height = decimal(sheet_height);
  Markup markup;
  markup.trusted("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
  markup.open("svg", {{"xmlns", "http://www.w3.org/2000/svg"},
                      {"class", "sheet"},
                      {"width", width},
                      {"height", height},
                      {"viewBox", fmt::format("0 0 {} {}", width, height)},
                      {"role", "img"},
                      {"aria-labelledby", "title description"}});
  markup.leaf("title", {{"id", "title"}}, picture.caption.title);
  markup.leaf("desc", {{"id", "description"}}, description_of(picture));
  markup.open("style").trusted(kFileStyle).close();
  write_hatches(markup);
  markup.empty("rect", {{"width", width}, {"height", height}, {"class", "paper"}});
  markup.trusted(body).close().trusted("\n");
  return markup.take();
}

// A file of this width, without the edges: plots stand in one or two columns.
Medium medium_for(double width) {
  const bool beside = width >= 2 * kLeastPlot + kGutter;
  Medium medium = Medium::file;
  medium.row_width = width;
  medium.plot_width = beside ? (width - kGutter) / 2 : width;
  return medium;
}

template <auto kChart, auto kPicture>
Drawing draw(std::span<const Report> reports, CourseAxis axis) {
  const auto chart = [&] {
    if constexpr (requires { kChart(reports, axis); }) {
      return kChart(reports, axis);
    } else {
      return kChart(reports);
    }
  }();
  return {chart.heading, chart.empty_reason,
          [chart](const Medium& medium) { return kPicture(chart, medium); }};
}

}  // namespace

std::span<const PictureKind> picture_kinds() {
  static constexpr PictureKind kKinds[] = {
      {"scaling", draw<scaling_chart, scaling_picture>},
      {"breakdown", draw<breakdown_chart, stacked_picture>},
      {"memory", draw<memory_chart, stacked_picture>},
      {"steps", draw<steps_chart, steps_picture>},
      {"buckets", draw<buckets_chart, buckets_picture>},
      {"accuracy", draw<accuracy_chart, accuracy_picture>},
      {"busy", draw<busy_chart, stacked_picture>},
      {"bandwidth", draw<bandwidth_chart, bandwidth_picture>},
      {"staleness", draw<staleness_chart, stacked_picture>},
  };
  return kKinds;
}

std::string picture_file(const Picture& picture) {
  const auto [body, height] = lay_out(picture, kSheetWidth);
  return document_of(picture, body, kSheetWidth + 2 * kEdge, height);
}

std::string picture_file(const std::function<Picture(const Medium&)>& make,
                         const PictureSize& size) {
  const double width = size.width - 2 * kEdge;
  Medium medium = medium_for(width);
  // The height is a part that is fixed (words, axes) and one that grows with the stretch.
  const double once = lay_out(make(medium), width).second;
  medium.stretch = 2;
  const double grows = lay_out(make(medium), width).second - once;
  medium.stretch = (size.height - (once - grows)) / grows;
  if (medium.stretch < kLeastStretch) {
    throw ConfigError(
        fmt::format("--size={}x{} is too low: at this width the picture needs a height of {:.0f}, "
                    "less without its "
                    "notes or with fewer runs",
                    size.width, size.height, std::ceil(once - (1 - kLeastStretch) * grows)));
  }
  const Picture picture = make(medium);
  return document_of(picture, lay_out(picture, width).first, size.width, size.height);
}

void write_swatch(Markup& markup, const LegendEntry& entry) {
  const double middle = kSwatchHeight / 2;
  markup.open("g", {{entry.classes.empty() ? "" : "class", entry.classes}});
  if (entry.mark == LegendEntry::Mark::filled) {
    svg_rect(markup, {0, 0}, kSwatchWidth, kSwatchHeight, "part", {});
  } else {
    const bool line = entry.mark == LegendEntry::Mark::line;
    const char* other = entry.mark == LegendEntry::Mark::dotted ? "ideal" : "step";
    svg_line(markup, {0, middle}, {kSwatchWidth, middle}, line ? "series" : other);
    if (line) {
      svg_path(markup, marker_path(entry.marker, {kSwatchWidth / 2, middle}), "marker");
    }
  }
  markup.close();
}

void write_hatches(Markup& markup) {
  markup.open("defs", {{"class", "hatches"}});
  for (const Hatch& hatch : kHatches) {
    markup.open("pattern", {{"id", std::string("hatch-") + hatch.part},
                            {"width", "6"},
                            {"height", "6"},
                            {"patternUnits", "userSpaceOnUse"}});
    markup.empty("rect", {{"width", "6"}, {"height", "6"}, {"class", hatch.part}});
    markup.empty("path", {{"d", hatch.path}}).close();
  }
  markup.close();
}

void open_entry(Markup& markup, std::size_t entry, const std::string& classes) {
  markup.open("g", {{"data-s", std::to_string(entry)}, {classes.empty() ? "" : "class", classes}});
}

std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series) {
  return mapped(series, [](const ChartSeries& one) -> LegendEntry {
    return {one.name, line_class(one), LegendEntry::Mark::line, line_marker(one)};
  });
}

std::string line_class(const ChartSeries& series) {
  std::string classes = style_class(series.style);
  if (series.variant > 0) classes += fmt::format(" v{}", (series.variant - 1) % kVariants + 1);
  return series.predicted ? classes + " predicted" : classes;
}

std::size_t line_marker(const ChartSeries& series) { return series.style + series.variant; }

}  // namespace ddpbench::report::pictures
