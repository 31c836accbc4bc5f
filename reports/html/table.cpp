// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/html/table.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "reports/pictures/svg.h"

namespace ddpbench::report::html {
namespace {

constexpr std::size_t kMostOnOneLine = 22;  // characters
constexpr std::string_view kMissing = "\u2013";

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
            cell.text.empty() ? kMissing : cell.text);
}

// "overlap=on,servers=1" with gaps, so that it is broken between options and not inside of one.
std::string spaced_options(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] != ' ') result += ' ';
  }
  return result;
}

// "12.5", "(0.3)" and "3*" sort as numbers where they are no `words`, "-(1)" as missing.
Cell cell_of(const std::string& text, bool words) {
  const std::size_t skipped = text.starts_with('(') ? 1 : 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str() + skipped, &end);
  if (!words && end != text.c_str() + skipped) return {value, text};
  Cell cell(text.starts_with('-') ? text : spaced_options(text));
  cell.missing |= text.starts_with('-');
  return cell;
}

}  // namespace

Cell fixed_cell(std::optional<double> value, double unit, int decimals) {
  return value ? Cell(*value, pictures::fixed(*value / unit, decimals)) : Cell("");
}

Table page_table(const TextTable& text, const std::string& caption) {
  Table table{caption, {}};
  for (const TextColumn& column : text.columns)
    table.columns.push_back({heading(column), column.left});
  for (std::size_t r = 0; r < text.rows(); ++r) {
    std::vector<Cell>& cells = table.rows.emplace_back();
    for (const std::string& words : text.row(r)) {
      cells.push_back(cell_of(words, table.columns[cells.size()].left));
    }
  }
  return table;
}

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
  write_list(page, table.notes, "notes");
}

void write_list(Markup& page, const std::vector<std::string>& notes, const std::string& classes) {
  if (notes.empty()) return;
  page.open("ul", {{classes.empty() ? "" : "class", classes}});
  for (const std::string& note : notes) page.leaf("li", note);
  page.close();
}

void write_folded_table(Markup& page, const std::string& summary, const Table& table) {
  page.open("details").leaf("summary", summary);
  write_table(page, table);
  page.close();
}

}  // namespace ddpbench::report::html
