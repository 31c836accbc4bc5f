// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/picture.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddpbench::report::html {
namespace {

void write_swatch(Markup& page, const LegendEntry& entry) {
  page.open("svg", {{"viewBox", "0 0 26 12"}, {"class", "swatch"}, {"aria-hidden", "true"}});
  page.open("g", {{"class", entry.classes}});
  if (entry.line) {
    svg_line(page, {0, 6}, {26, 6}, "series");
    svg_path(page, marker_path(entry.marker, {13, 6}), "marker");
  } else {
    page.empty("rect", {{"width", "26"}, {"height", "12"}, {"class", "part"}});
  }
  page.close().close();
}

void write_legend(Markup& page, const Picture& picture) {
  if (picture.legend.empty()) return;
  page.open("ul", {{"class", "legend"}, {"aria-label", "Legend"}});
  for (std::size_t i = 0; i < picture.legend.size(); ++i) {
    page.open("li").open(
        "button",
        {{"type", "button"}, {"aria-pressed", "true"}, {"data-toggle", std::to_string(i)}});
    write_swatch(page, picture.legend[i]);
    page.leaf("span", picture.legend[i].name).close().close();
  }
  page.close();
}

}  // namespace

void write_picture(Markup& page, const Picture& picture) {
  page.open("figure", {{"id", picture.id}, {"class", "chart"}});
  page.leaf("h3", picture.heading);
  // "Scaling: simple_cnn on mnist, ...": the heading has said the first words.
  const std::string& title = picture.caption.title;
  page.leaf("p", {{"class", "about"}}, title.substr(std::min(title.find(": ") + 2, title.size())));
  write_legend(page, picture);
  page.open("div", {{"class", "panels"}});
  picture.panels(page);
  page.close().open("figcaption").leaf("p", picture.caption.subtitle);
  if (!picture.caption.notes.empty()) {
    page.open("ul");
    for (const std::string& note : picture.caption.notes) page.leaf("li", note);
    page.close();
  }
  page.close();
  write_folded_table(page, "Data as a table", picture.data);
  page.close().trusted("\n");
}

void write_hatches(Markup& page) {
  page.open("svg", {{"class", "hatches"}, {"aria-hidden", "true"}}).open("defs");
  for (const char* part : {"p3", "p5"}) {
    page.open("pattern", {{"id", std::string("hatch-") + part},
                          {"width", "6"},
                          {"height", "6"},
                          {"patternUnits", "userSpaceOnUse"}});
    page.empty("rect", {{"width", "6"}, {"height", "6"}, {"class", part}});
    // p3 rises, p5 falls; the short strokes continue it over the corners.
    page.empty("path", {{"d", std::string_view(part) == "p3" ? "M-1 7L7 -1M-1 1L1 -1M5 7L7 5"
                                                             : "M-1 -1L7 7M5 -1L7 1M-1 5L1 7"}});
    page.close();
  }
  page.close().close();
}

void write_no_picture(Markup& page, const std::string& heading, const std::string& why) {
  page.open("figure", {{"class", "chart"}}).leaf("h3", heading);
  page.leaf("p", {{"class", "about"}}, "Nothing to draw: " + why).close().trusted("\n");
}

void open_entry(Markup& page, std::size_t entry, const std::string& classes) {
  page.open("g", {{"data-s", std::to_string(entry)}, {"class", classes}});
}

std::vector<LegendEntry> line_legend(const std::vector<ChartSeries>& series) {
  std::vector<LegendEntry> legend;
  for (const ChartSeries& one : series) {
    legend.push_back({one.name, style_class(one.style), true, one.style});
  }
  return legend;
}

}  // namespace ddpbench::report::html
