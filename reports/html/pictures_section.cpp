// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The section of pictures. Each is a <figure> with a legend whose entries switch shapes on and off,
// the picture's panels, its notes, and its values in words.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "reports/html/page.h"
#include "reports/html/sections.h"
#include "reports/pictures/picture.h"

namespace ddpbench::report::html {
namespace {

using pictures::Medium;
using pictures::Panel;
using pictures::Picture;

void write_legend(Markup& page, const Picture& picture) {
  if (picture.legend.empty()) return;
  page.open("ul", {{"class", "legend"}, {"aria-label", "Legend"}});
  for (std::size_t i = 0; i < picture.legend.size(); ++i) {
    page.open("li").open(
        "button",
        {{"type", "button"}, {"aria-pressed", "true"}, {"data-toggle", std::to_string(i)}});
    page.open("svg", {{"viewBox",
                       fmt::format("0 0 {} {}", pictures::kSwatchWidth, pictures::kSwatchHeight)},
                      {"class", "swatch"},
                      {"aria-hidden", "true"}});
    write_swatch(page, picture.legend[i]);
    page.close().leaf("span", picture.legend[i].name).close().close();
  }
  page.close();
}

void write_panel(Markup& page, const Panel& panel) {
  const std::string title = panel.name.id + "-title", description = panel.name.id + "-desc";
  page.open("svg", {{"viewBox", fmt::format("0 0 {} {}", pictures::decimal(panel.width),
                                            pictures::decimal(panel.height))},
                    {"role", "img"},
                    {panel.zoom.empty() ? "" : "data-zoom", panel.zoom},
                    {"aria-labelledby", title + " " + description}});
  page.leaf("title", {{"id", title}}, panel.name.title);
  page.leaf("desc", {{"id", description}}, panel.name.description);
  page.trusted(panel.shapes).close();
}

// What the shapes of a picture show, a line each.
void write_values(Markup& page, const Picture& picture) {
  page.open("details").leaf("summary", "Values");
  for (const Panel& panel : picture.panels) {
    page.leaf("p", {{"class", "about"}}, panel.name.title);
    const auto in_line = [](const std::string& value) { return joined(split(value, '\n'), "; "); };
    write_list(page, mapped(panel.values, in_line), "notes");
  }
  page.close();
}

}  // namespace

void write_small_figure(Markup& page, Picture picture) {
  page.open("figure", {{"class", "chart small"}}).leaf("figcaption", picture.heading);
  for (Panel& panel : picture.panels) panel.name.id = "small-" + panel.name.id;
  write_legend(page, picture);
  for (const Panel& panel : picture.panels) write_panel(page, panel);
  write_list(page, picture.caption.notes, "notes");
  page.close();
}

void write_figure(Markup& page, const Picture& picture) {
  page.open("figure", {{"id", picture.id}, {"class", "chart"}});
  page.leaf("h3", picture.heading);
  // The heading already says "Scaling" of "Scaling: simple_cnn on mnist, ...".
  const std::string& title = picture.caption.title;
  page.leaf("p", {{"class", "about"}}, title.substr(std::min(title.find(": ") + 2, title.size())));
  write_legend(page, picture);
  page.open("div", {{"class", "panels"}});
  for (const Panel& panel : picture.panels) write_panel(page, panel);
  page.close().open("figcaption").leaf("p", picture.caption.subtitle);
  write_list(page, picture.caption.notes, {});
  page.close();
  write_values(page, picture);
  page.close().trusted("\n");
}

void write_pictures(Markup& page, const HtmlInput& input) {
  for (const pictures::PictureKind& kind : pictures::picture_kinds()) {
    if (kind.name == "bandwidth") continue;  // of collectives
    const pictures::Drawing drawing = kind.draw(input.reports, CourseAxis::seconds);
    if (drawing.empty_reason.empty()) {
      write_figure(page, drawing.picture(Medium::page));
    } else if (kind.name != "staleness") {  // which few strategies have
      page.open("figure", {{"class", "chart"}}).leaf("h3", drawing.heading);
      page.leaf("p", {{"class", "about"}}, "Nothing to draw: " + drawing.empty_reason);
      page.close().trusted("\n");
    }
  }
}

}  // namespace ddpbench::report::html
