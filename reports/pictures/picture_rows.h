// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Panels of rows: each bar or box has a name and a figure above it, and one axis is below all.
// Private to reports/pictures.
#pragma once

#include <string>
#include <utility>

#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {

class RowPanel {
 public:
  // `row_height`: the height of the shapes, without the line of words above them.
  RowPanel(SvgName name, double width, std::size_t rows, double row_height);
  Markup& markup() { return markup_; }
  // Draws the axis that all rows share. Call it before the first row().
  void axis(const Axis& axis, const std::string& title);
  // Writes the words of the next row. Returns the area of its shapes.
  Area row(const std::string& name, const std::string& figure, const ChartSeries& series);
  double x_of(double value) const;  // clamped to the axis
  Panel finish();
  // The same of a panel whose axis begins at 0 and has labels in `unit`: pages can zoom into it.
  Panel finish_zoomable(const Unit& unit);

 private:
  Markup markup_;
  SvgName name_;
  double width_, height_, row_height_;
  std::size_t next_ = 0;
  Axis axis_;
};

}  // namespace ddpbench::report::pictures
