// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The lines of a chart that is drawn with characters (chart_text.h): each has a label, a bar to
// scale and numbers. Private to reports/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

// A row of cells that stand for the values from 0 to `most`.
class TextBar {
 public:
  TextBar(std::size_t cells, double most);
  // Fills the cells whose middle is between the two values; `mark` is one character.
  void fill(double begin, double end, std::string_view mark);
  // Overwrites the cell at `value`.
  void set(double value, std::string_view mark);
  std::string text() const;

 private:
  std::size_t cell_of(double value) const;
  std::vector<std::string> cells_;
  double most_;
};

// One line of a chart.
struct TextRow {
  std::string above;  // the series; drawn where it differs from the row before
  std::string label;
  std::string numbers;
};

class TextCanvas {
 public:
  // `width`: the most columns; less than 40 counts as 40. The bars get the cells that the widest
  // label and the widest numbers of `rows` leave. Where that is too few, numbers are below bars.
  TextCanvas(const Chart& chart, int width, const std::vector<TextRow>& rows);

  std::size_t cells() const { return cells_; }
  // Adds text without a bar, wrapped.
  void line(const std::string& text, std::size_t indent = 0);
  // Adds one of `rows` with its bar.
  void row(const TextRow& row, const std::string& bar);
  // Adds a line without a label below the last row.
  void below(const std::string& bar, const std::string& numbers);
  // Ends with the notes of `chart`. Returns all lines.
  std::string finish(const Chart& chart);

 private:
  std::string text_, heading_;
  std::size_t width_, label_ = 0, numbers_ = 0, cells_ = 0;
  bool numbers_below_ = false;
};

// `text` in exactly `columns` columns: shortened with "..." or filled with blanks, on its left if
// `right`.
std::string fitted(const std::string& text, std::size_t columns, bool right = false);

// The name of a series without control characters. It is shown once, above the rows of the series.
std::string heading_of(const Chart& chart, std::size_t series);

// " 4 ", or " 4*" where the run was oversubscribed.
std::string devices_text(int devices, bool oversubscribed);

}  // namespace ddpbench::report
