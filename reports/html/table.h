// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables of a page. report.js makes them sortable. Private to reports/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/pictures/markup.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report::html {

using pictures::Markup;

struct Cell {
  Cell(std::string words) : text(std::move(words)), missing(text.empty()) {}
  Cell(double value, std::string words) : text(std::move(words)), order(value) {}

  std::string text;
  std::optional<double> order = {};  // the number by which its column is sorted
  bool missing = false;              // the cell sorts last in both directions
  std::string kind = {};             // "good", "bad": the emphasis of the text
};
// value / unit, as svg.h writes numbers; missing where there is none.
Cell fixed_cell(std::optional<double> value, double unit, int decimals);

struct TableColumn {
  std::string head;
  bool left = false;  // alignment: true for words, false for numbers
  std::string about;  // explains the heading
};

struct Table {
  std::string caption;
  std::vector<TableColumn> columns;
  std::vector<std::vector<Cell>> rows =
      {};                               // one cell for each column; the first is the row's heading
  std::vector<std::string> notes = {};  // shown below the table
  // On a narrow screen each row becomes a card, whose figures have their headings beside them.
  bool cards = false;
};

// The same table for a page.
Table page_table(const TextTable& text, const std::string& caption);

// Writes the table into a box that scrolls if the table is wider than the page.
void write_table(Markup& page, const Table& table);
// The same in a <details> element with the heading `summary`.
void write_folded_table(Markup& page, const std::string& summary, const Table& table);
// A list; nothing without any notes.
void write_list(Markup& page, const std::vector<std::string>& notes, const std::string& classes);

}  // namespace ddpbench::report::html
