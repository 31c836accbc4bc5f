// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text, axes with round ticks, and drawing with elements of SVG. pictures.css colours
// shapes by their classes. A <title> holds a shape's values; report.js shows it beside the pointer.
// Lengths are in units of the picture's own grid, independent of its size on the screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/pictures/markup.h"

namespace ddpbench::report::pictures {

// The unit in which a picture or table shows values.
struct Unit {
  std::string name;  // "ms"
  double size = 1;   // in the report's unit: 1e-3 for ms, as reports use seconds
};
// The unit of time or memory in which `largest` has about one to four digits before its point.
Unit time_unit(double largest_s);
Unit memory_unit(double largest_bytes);

// At least three significant digits from 0.01 on, with narrow gaps from five digits on: "11 030",
// "46.6".
std::string number(double value);
std::string with_unit(double value, const Unit& unit);  // "46.6 ms"
// With a fixed number of decimals, for columns of a table.
std::string fixed(double value, int decimals);

struct Axis {
  double begin = 0, end = 1;  // in the report's unit, like the ticks
  bool logarithmic = false;
  std::vector<double> ticks;
  std::vector<std::string> labels;      // in the axis's unit
  double position(double value) const;  // 0 at the beginning, 1 at the end
};
// An axis with round ticks, which begins and ends at such ones around [least, most].
// REQUIRES: 0 <= least < most, both finite.
Axis axis_over(double least, double most, const Unit& unit, int most_ticks);
// The same from 0 to any `largest`.
Axis axis_to(double largest, const Unit& unit, int most_ticks);
// A logarithmic axis from the last 1, 2 or 5 times a power of ten that is at most `least` to the
// first one that is at least `largest`. REQUIRES: 0 < least <= largest, both finite.
Axis log_axis(double least, double largest, const Unit& unit, int most_ticks);

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

// A generous estimate of the width of `text`, kFont high.
double text_width(std::string_view text);
// Shortened by elided() (base/text.h), which keeps both ends: the end tells runs apart.
std::string fitted(const std::string& text, double width);
// `text` in at most `most` lines, each at most `width` wide. The last line, and a word wider than a
// line, are shortened with an ellipsis.
std::vector<std::string> wrapped(const std::string& text, double width, std::size_t most);

// A path of one of six shapes. A class makes them hollow.
std::string marker_path(std::size_t style, Point at);
// A vertical bar between two heights with short strokes at its ends: a path of the class "error".
std::string error_bar(double x, double from_y, double to_y);
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
