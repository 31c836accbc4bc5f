// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lines of characters for chart_text: bars to a scale, between a label and numbers. Private to
// reports/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

// A row of cells that show 0 ... most.
class TextBar {
 public:
  TextBar(std::size_t cells, double most);
  // Fills the cells whose middle is between the two values; `mark` is one character.
  void fill(double begin, double end, std::string_view mark);
  // The cell at `value`, whatever is there.
  void set(double value, std::string_view mark);
  std::string text() const;

 private:
  std::size_t cell_of(double value) const;
  std::vector<std::string> cells_;
  double most_;
};

// One line of a chart. Series name and title stand on lines of their own.
struct TextRow {
  std::string above;  // a heading when it differs from the row's before
  std::string label;
  std::string numbers;
};

class TextCanvas {
 public:
  // `width`: columns at most; below 40 is drawn as 40. The widths of the labels and numbers of
  // `rows` leave the cells for the bars.
  TextCanvas(const Chart& chart, int width, const std::vector<TextRow>& rows);

  std::size_t cells() const { return cells_; }
  // A line on its own, wrapped.
  void line(const std::string& text, std::size_t indent = 0);
  // The next of `rows`, with its bar.
  void row(const TextRow& row, const std::string& bar);
  // A further line below the row's bar.
  void below(const std::string& bar, const std::string& numbers);
  // The chart with its notes.
  std::string finish(const Chart& chart);

 private:
  std::string text_, heading_;
  std::size_t width_, label_ = 0, numbers_ = 0, cells_ = 0;
};

// `text` in `columns`, shortened with "..." or filled with blanks, at the left or right.
std::string fitted(const std::string& text, std::size_t columns, bool right = false);

// Every heading (series) is shown once, above the rows; this is its text without control
// characters.
std::string heading_of(const Chart& chart, std::size_t series);

// "4*" where oversubscribed.
std::string devices_text(int devices, bool oversubscribed);

}  // namespace ddpbench::report
