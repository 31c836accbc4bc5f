// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Lays out text tables: aligned columns, of which the least important go where the width is
// limited, and footnotes. It knows nothing of runs. Private to reports/.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddpbench::report {

struct TextColumn {
  std::string top = {}, bottom = {};  // the two lines of the heading
  bool left = false;                  // alignment
  int drop = 0;  // columns with the highest go first where the width is limited; 0: it stays
  std::vector<std::string> cells = {};
};

struct TextTable {
  std::vector<TextColumn> columns = {};  // all have the same number of cells

  std::size_t rows() const { return columns.empty() ? 0 : columns.front().cells.size(); }
  // A row of cells, one for each column.
  void add_row(std::vector<std::string> cells);
  std::vector<std::string> row(std::size_t number) const;
};

// Joins the two lines of a heading: "speed-" and "up" become "speed-up".
std::string heading(const TextColumn& column);

// A line for each row below one or two of headings, at most `width` characters wide where dropping
// columns and then shortening names does it (0: not limited). Each line ends with a newline.
std::string render_rows(TextTable table, std::size_t width);

// The reasons below a table, numbered in the order of first use. Equal reasons share a number.
class Footnotes {
 public:
  // The mark "(1)" for a cell. Adds the reason if it is new.
  std::string mark(const std::string& reason);
  // "(1) the reason", without control characters.
  std::vector<std::string> lines() const;

 private:
  std::vector<std::string> reasons_;
  std::unordered_map<std::string, std::size_t> numbers_;  // reports may hold thousands of reasons
};

}  // namespace ddpbench::report
