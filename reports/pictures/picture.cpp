// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/pictures/picture.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddpbench::report::pictures {
namespace {

// The layout of a picture in a file of its own. Fonts are as in pictures.css.
constexpr double kEdge = 20, kGutter = 32;
constexpr double kSheetWidth = 2 * kPanelWidth + kGutter;  // without the edges
constexpr double kTitleFont = 17, kNoteFont = 11, kLeading = 1.4;
constexpr double kBold = 1.15;  // width of bold type / that of normal type
constexpr double kSwatchGap = 8, kEntryGap = 22, kLegendLine = 22;
constexpr std::size_t kMostLines = 8;  // of one text

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
  explicit Sheet(Markup& markup) : markup_(markup) {}

  double height() const { return y_ + kEdge; }
  void skip(double length) { y_ += length; }

  void text(const std::string& text, double font, std::string_view classes, double wider = 1) {
    const double width = kSheetWidth * kFont / font / wider;
    for (const std::string& line : wrapped(text, width, kMostLines)) {
      svg_text(markup_, {kEdge, y_ + font}, Anchor::start, classes, line);
      y_ += font * kLeading;
    }
  }

  void legend(const std::vector<LegendEntry>& entries) {
    double x = 0;
    for (const LegendEntry& entry : entries) {
      const std::string name = fitted(entry.name, kSheetWidth - kSwatchWidth - kSwatchGap);
      const double width = kSwatchWidth + kSwatchGap + text_width(name);
      if (x > 0 && x + width > kSheetWidth) {
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
      if (x > 0 && x + panel.width > kSheetWidth) {
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
  double y_ = kEdge;
};

std::string description_of(const Picture& picture) {
  std::string text;
  for (const Panel& panel : picture.panels) {
    text += (text.empty() ? "" : " ") + panel.name.title + ". " + panel.name.description;
  }
  return text;
}

}  // namespace

std::string picture_file(const Picture& picture) {
  Markup body;
  Sheet sheet(body);
  sheet.text(picture.caption.title, kTitleFont, "title", kBold);
  sheet.text(picture.caption.subtitle, kFont, "tick");
  sheet.skip(10);
  sheet.legend(picture.legend);
  sheet.skip(4);
  sheet.panels(picture.panels);
  sheet.skip(12);
  for (const std::string& note : picture.caption.notes) sheet.text(note, kNoteFont, "note");

  const std::string width = decimal(kSheetWidth + 2 * kEdge), height = decimal(sheet.height());
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
  markup.trusted(body.take()).close().trusted("\n");
  return markup.take();
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
  std::vector<LegendEntry> legend;
  for (const ChartSeries& one : series) {
    legend.push_back({one.name, style_class(one.style), LegendEntry::Mark::line, one.style});
  }
  return legend;
}

double panel_width(Medium medium) { return medium == Medium::page ? kPanelWidth : kSheetWidth; }

}  // namespace ddpbench::report::pictures
