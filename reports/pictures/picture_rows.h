// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Panels of rows: a name and a figure stand above each bar or box, one axis below all. Private to
// reports/pictures.
#pragma once

#include <string>
#include <utility>

#include "reports/pictures/picture.h"

namespace ddpbench::report::pictures {

class RowPanel {
 public:
  // `row_height`: of what is drawn, without the line of words above it.
  RowPanel(SvgName name, double width, std::size_t rows, double row_height);
  Markup& markup() { return markup_; }
  // The axis that all rows share; before the first row.
  void axis(const Axis& axis, const std::string& title);
  // Writes the words of the next row; returns where it is drawn.
  Area row(const std::string& name, const std::string& figure, std::size_t style);
  double x_of(double value) const;  // not beyond the axis
  Panel finish();

 private:
  Markup markup_;
  SvgName name_;
  double width_, height_, row_height_;
  std::size_t next_ = 0;
  Axis axis_;
};

}  // namespace ddpbench::report::pictures
