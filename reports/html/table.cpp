// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/table.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace ddpbench::report::html {
namespace {

constexpr std::size_t kMostOnOneLine = 22;  // characters

void write_head(Markup& page, const Table& table) {
  page.open("thead").open("tr");
  for (const TableColumn& column : table.columns) {
    page.open("th", {{"scope", "col"},
                     {"aria-sort", "none"},
                     {column.left ? "class" : "", "words"},
                     {column.about.empty() ? "" : "title", column.about}});
    page.leaf("button", {{"type", "button"}}, column.head).close();
  }
  page.close().close();
}

// `label`: the cell says which column it is of, for screens on which the headings are not above it.
void write_cell(Markup& page, const Cell& cell, const TableColumn& column, bool heads_row,
                bool label) {
  std::string classes = column.left ? "words" : "";
  // Sentences may take several lines. Names and figures stay on one line.
  if (column.left && display_width(cell.text) > kMostOnOneLine) classes += " long";
  if (cell.missing) classes += " missing";
  if (!cell.kind.empty()) classes += " " + cell.kind;
  const bool ordered = cell.order && std::isfinite(*cell.order);
  page.leaf(heads_row ? "th" : "td",
            {{heads_row ? "scope" : "", "row"},
             {label ? "data-label" : "", column.head},
             {classes.empty() ? "" : "class", classes},
             {ordered ? "data-v" : "", fmt::format("{:.9g}", cell.order.value_or(0))}},
            cell.text);
}

}  // namespace

Cell cell(std::string text) { return {std::move(text), std::nullopt, false, {}}; }

Cell cell(double order, std::string text) { return {std::move(text), order, false, {}}; }

Cell missing_cell(std::string text) { return {std::move(text), std::nullopt, true, {}}; }

void write_table(Markup& page, const Table& table) {
  // A scrolling region must be reachable by keyboard, and so it needs a name.
  page.open(
      "div",
      {{"class", "scroll"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", table.caption}});
  page.open("table", {{"class", table.cards ? "sortable cards" : "sortable"}})
      .leaf("caption", table.caption);
  write_head(page, table);
  page.open("tbody");
  for (const std::vector<Cell>& row : table.rows) {
    page.open("tr");
    for (std::size_t c = 0; c < row.size(); ++c) {
      write_cell(page, row[c], table.columns[c], c == 0, table.cards);
    }
    page.close().trusted("\n");
  }
  page.close().close().close();
  if (table.notes.empty()) return;
  page.open("ul", {{"class", "notes"}});
  for (const std::string& note : table.notes) page.leaf("li", note);
  page.close();
}

void write_folded_table(Markup& page, const std::string& summary, const Table& table) {
  page.open("details").leaf("summary", summary);
  write_table(page, table);
  page.close();
}

}  // namespace ddpbench::report::html
