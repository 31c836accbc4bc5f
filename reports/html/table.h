// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of a page: report.js sorts them. Private to reports/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/pictures/markup.h"

namespace ddpbench::report::html {

using pictures::Markup;

struct Cell {
  std::string text;
  std::optional<double> order;  // what a column of numbers is sorted by
  bool missing = false;         // sorted last in both directions
  std::string kind;             // "good", "bad": how it is emphasized beside its words
};
Cell cell(std::string text);
Cell cell(double order, std::string text);
Cell missing_cell(std::string text = "\u2013");

struct TableColumn {
  std::string head;
  bool left = false;  // words; numbers are on the right
  std::string about;  // for people who ask what the heading means
};

struct Table {
  std::string caption;
  std::vector<TableColumn> columns;
  std::vector<std::vector<Cell>> rows;  // as many cells as columns; the first one heads the row
  std::vector<std::string> notes;       // below, numbered (1), (2), ...
};

// In a box that scrolls on its own where the table is wider than the page.
void write_table(Markup& page, const Table& table);
// The same, folded away under `summary`.
void write_folded_table(Markup& page, const std::string& summary, const Table& table);

}  // namespace ddpbench::report::html
