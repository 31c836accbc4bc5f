// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures of rows: a name and a figure above each bar or box, one axis below all. Private to
// reports/.
#pragma once

#include <string>
#include <vector>

#include "reports/html/svg.h"

namespace ddpbench::report::html {

class RowPicture {
 public:
  // Opens the <svg>, which finish() closes. `row_height`: of what is drawn, the line of words above
  // it apart.
  RowPicture(Markup& page, const SvgName& name, std::size_t rows, double row_height);
  // The axis that all rows share; before the first row.
  void axis(const Axis& axis, const std::string& title);
  // Writes the words of the next row; returns where it is drawn.
  Area row(const std::string& name, const std::string& figure, std::size_t style);
  double x_of(double value) const;  // not beyond the axis
  void finish();

 private:
  Markup& page_;
  double height_, row_height_;
  std::size_t next_ = 0;
  Axis axis_;
};

}  // namespace ddpbench::report::html
