// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Text tables: aligned columns, stacked in blocks where the width is limited, and footnotes.
// Private to reports/; knows nothing of runs.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddpbench::report {

struct TextColumn {
  std::string top, bottom;  // heading; the unit is in one of the lines
  bool left = false;        // alignment
  bool joined = false;      // belongs beside the column before it, where the width allows
  std::vector<std::string> cells;
};

struct TextTable {
  std::size_t keys = 0;             // first columns, repeated in every block
  std::vector<TextColumn> columns;  // all with the same number of cells
  // One a row: text in place of all cells after the keys; empty where the row has cells.
  std::vector<std::string> instead;
};

// Lines of at most `width` columns, where that is possible: columns that do not fit go to a further
// block below, with the key columns repeated. 0: one block. Ends with a newline.
std::string render_blocks(const TextTable& table, std::size_t width);

// Reasons below a table, numbered in the order of their first use; equal ones share a number.
class Footnotes {
 public:
  // The mark to put into a cell, "(1)".
  std::string mark(const std::string& reason);
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  std::vector<std::string> reasons_;
  std::unordered_map<std::string, std::size_t> numbers_;  // reports may hold thousands of reasons
};

}  // namespace ddpbench::report
