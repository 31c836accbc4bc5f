// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Drawing with the elements of SVG: shapes carry classes that pictures.css colours, and a <title>
// that says their values (a page's report.js shows it beside the pointer). Lengths are units of the
// picture's own grid, a panel's width at any size on the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/pictures/markup.h"
#include "reports/pictures/numbers.h"

namespace ddpbench::report::pictures {

inline constexpr double kPanelWidth = 420;  // of two that stand beside each other
inline constexpr double kFont = 12;         // height of usual type

// What a panel is called, and what it shows in a sentence, for readers who do not see it.
struct SvgName {
  std::string id;  // of the page
  std::string title, description;
};

std::string decimal(double length);  // "12.5"

enum class Anchor { start, middle, end };
struct Point {
  double x = 0, y = 0;
};
void svg_text(Markup& markup, Point at, Anchor anchor, std::string_view classes,
              std::string_view text);
void svg_line(Markup& markup, Point from, Point to, std::string_view classes);
// Something with values of its own: `tip` is shown when it is pointed at.
void svg_rect(Markup& markup, Point corner, double width, double height, const std::string& classes,
              const std::string& tip);
void svg_path(Markup& markup, const std::string& path, const std::string& classes,
              const std::string& tip = {});

// Width of `text` in the pictures' type, kFont high, generously.
double text_width(std::string_view text);
// As elided() of base/text.h: the strategy stands first, what tells runs apart last.
std::string fitted(const std::string& text, double width);
// Lines of words that are at most `width` wide. What goes beyond `most` lines is lost to an
// ellipsis in the last one, and so is the middle of a word that is wider than a line.
std::vector<std::string> wrapped(const std::string& text, double width, std::size_t most);

// A path for each of six shapes; hollow ones by class.
std::string marker_path(std::size_t style, Point at);
// "s0" to "s7": a class for each colour and dash. With the shapes, 24 styles differ.
std::string style_class(std::size_t style);

// Where values are drawn.
struct Area {
  double left = 0, top = 0, right = kPanelWidth, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};
// Lines with labels below the area, and `title` under them (needs 34 below).
void draw_x_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title);
// Lines with labels left of the area, and `title` above (needs 22 above).
void draw_y_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title);
// Room that the labels of a vertical axis need.
double label_room(const Axis& axis);

}  // namespace ddpbench::report::pictures
