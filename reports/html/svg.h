// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Drawing into the page as <svg>: shapes carry classes that report.css colours for light and dark,
// and a <title> that says their values (report.js shows it beside the pointer). Lengths are units
// of the picture's own grid, kWidth wide at any size on the screen. Private to reports/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reports/html/markup.h"
#include "reports/html/numbers.h"

namespace ddpbench::report::html {

inline constexpr double kWidth = 420;

// What a picture is called, and what it shows in a sentence, for readers who do not see it.
struct SvgName {
  std::string id;  // of the page
  std::string title, description;
};
void open_svg(Markup& page, const SvgName& name, double height);  // closed by page.close()

std::string decimal(double length);  // "12.5"

enum class Anchor { start, middle, end };
struct Point {
  double x = 0, y = 0;
};
void svg_text(Markup& page, Point at, Anchor anchor, std::string_view classes,
              std::string_view text);
void svg_line(Markup& page, Point from, Point to, std::string_view classes);
// Something with values of its own: `tip` is shown when it is pointed at.
void svg_rect(Markup& page, Point corner, double width, double height, const std::string& classes,
              const std::string& tip);
void svg_path(Markup& page, const std::string& path, const std::string& classes,
              const std::string& tip = {});

// Width of `text` in the pictures' type, generously.
double text_width(std::string_view text);
// Cut to `width`, with an ellipsis where something is lost.
std::string fitted(const std::string& text, double width);

// Circle, square, triangle, diamond, by style; hollow ones by class.
std::string marker_path(std::size_t style, Point at);
// "s0" to "s7": a class for each colour and dash.
std::string style_class(std::size_t style);

// Where values are drawn.
struct Area {
  double left = 0, top = 0, right = kWidth, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};
// Lines with labels below the area, and `title` under them (needs 34 below).
void draw_x_axis(Markup& page, const Area& area, const Axis& axis, const std::string& title);
// Lines with labels left of the area, and `title` above (needs 22 above).
void draw_y_axis(Markup& page, const Area& area, const Axis& axis, const std::string& title);
// Room that the labels of a vertical axis need.
double label_room(const Axis& axis);

}  // namespace ddpbench::report::html
