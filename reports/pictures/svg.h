// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Drawing with elements of SVG. pictures.css colours shapes by their classes. A <title> holds a
// shape's values; report.js shows it beside the pointer. Lengths are in units of the picture's own
// grid, independent of its size on the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/pictures/markup.h"
#include "reports/pictures/numbers.h"

namespace ddpbench::report::pictures {

inline constexpr double kPanelWidth = 420;  // of one of two panels beside each other
inline constexpr double kFont = 12;         // height of normal type

// The name of a panel and a description for readers who do not see it.
struct SvgName {
  std::string id;  // unique in the page
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
// `tip` is shown while the pointer is on the shape; empty: none.
void svg_rect(Markup& markup, Point corner, double width, double height, const std::string& classes,
              const std::string& tip);
void svg_path(Markup& markup, const std::string& path, const std::string& classes,
              const std::string& tip = {});

// A generous estimate of the width of `text` in the pictures' type, kFont high.
double text_width(std::string_view text);
// Shortened by elided() (base/text.h), which keeps both ends: the end tells runs apart.
std::string fitted(const std::string& text, double width);
// `text` in at most `most` lines, each at most `width` wide. The last line, and a word wider than a
// line, are shortened with an ellipsis.
std::vector<std::string> wrapped(const std::string& text, double width, std::size_t most);

// A path of one of six shapes. A class makes them hollow.
std::string marker_path(std::size_t style, Point at);
// A vertical bar between two heights with short strokes at its ends, and a horizontal one: paths of
// the class "error".
std::string error_bar(double x, double from_y, double to_y);
std::string error_bar_across(double y, double from_x, double to_x);
// "s0" to "s7": the class for colour and dash. Together with the shapes, 24 styles differ.
std::string style_class(std::size_t style);

// The area in which values are drawn.
struct Area {
  double left = 0, top = 0, right = kPanelWidth, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};
// Draws lines with labels below the area and `title` under them, which needs 34 below.
void draw_x_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title);
// Draws lines with labels left of the area and `title` above, which needs 22 above.
void draw_y_axis(Markup& markup, const Area& area, const Axis& axis, const std::string& title);
// The width that the labels of a vertical axis need.
double label_room(const Axis& axis);

}  // namespace ddpbench::report::pictures
