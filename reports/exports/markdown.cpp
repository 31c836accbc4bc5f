// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GitHub's flavour of Markdown (https://github.github.com/gfm/#tables-extension-).
#include <fmt/format.h>

#include "reports/table/run_formats.h"
#include "reports/table/table_cells.h"

namespace ddpbench::report {
namespace {

// Punctuation that could mean something; a backslash before punctuation is always allowed.
std::string escaped(const std::string& text) {
  constexpr std::string_view kSpecial = "\\|*_`<>[]&~#";
  std::string result;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string line_of(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

// The two lines of a heading as one: "speed-", "up" is "speed-up".
std::string heading(const TextColumn& column) {
  if (column.top.empty() || column.top.ends_with('-')) return column.top + column.bottom;
  return column.top + ' ' + column.bottom;
}

std::string table_lines(const TextTable& table) {
  std::vector<std::string> headings, rulers;
  for (const TextColumn& column : table.columns) {
    headings.push_back(escaped(heading(column)));
    rulers.emplace_back(column.left ? ":--" : "--:");
  }
  std::string text = line_of(headings) + line_of(rulers);
  for (std::size_t row = 0; row < table.instead.size(); ++row) {
    std::vector<std::string> cells;
    for (const TextColumn& column : table.columns) cells.push_back(escaped(column.cells[row]));
    if (!table.instead[row].empty()) cells[table.keys] = escaped(table.instead[row]);
    text += line_of(cells);
  }
  return text;
}

}  // namespace

std::string markdown_text(std::span<const RunRow> rows, const Columns& columns) {
  if (rows.empty()) return "no runs\n";
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::string text = escaped(caption(rows)) + "\n\n" + table_lines(table);
  const std::vector<std::string> below = explanations(rows, columns, notes);
  if (!below.empty()) text += '\n';
  for (const std::string& line : below) text += fmt::format("- {}\n", escaped(line));
  return text;
}

}  // namespace ddpbench::report
