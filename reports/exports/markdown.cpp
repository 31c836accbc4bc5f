// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// GitHub's flavour of Markdown (https://github.github.com/gfm/#tables-extension-).
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "reports/exports/export_fields.h"
#include "reports/exports/run_formats.h"
#include "reports/table/table.h"
#include "reports/table/table_notes.h"
#include "reports/why/why.h"

namespace ddpbench::report {
namespace {

std::string markdown_line(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

// Joins the two lines of a heading: "speed-" and "up" become "speed-up".
std::string heading(const TextColumn& column) {
  if (column.top.empty() || column.top.ends_with('-')) return column.top + column.bottom;
  return column.top + ' ' + column.bottom;
}

// The warnings, tune conclusions and verdicts of the reports of these rows, each report once.
std::vector<std::string> remarks(std::span<const RunRow> rows) {
  std::vector<std::string> lines;
  std::set<const Report*> told;
  const bool several = from_several_files(rows);
  for (const RowWarning& warning : row_warnings(rows)) lines.push_back(to_string(warning, several));
  for (const RunRow& row : rows) {
    if (!told.insert(row.report).second) continue;
    const std::string file = several ? row.file + ": " : "";
    if (row.report->tune) lines.push_back(file + row.report->tune->conclusion);
    // Lines that are not indented are verdicts; the indented ones list the parts of the step.
    std::istringstream why(render_why(*row.report, 0));
    for (std::string line; std::getline(why, line);) {
      if (!line.starts_with(' ')) lines.push_back(file + line);
    }
  }
  return lines;
}

}  // namespace

// Escapes the punctuation of markup. A backslash is allowed before any punctuation.
std::string markdown_escaped(const std::string& text) {
  constexpr std::string_view kSpecial = "\\|*_`<>[]&~#";
  std::string result;
  for (const char c : text) {
    if (kSpecial.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string markdown_table(const TextTable& table) {
  std::vector<std::string> headings, rulers;
  for (const TextColumn& column : table.columns) {
    headings.push_back(markdown_escaped(heading(column)));
    rulers.emplace_back(column.left ? ":--" : "--:");
  }
  std::string text = markdown_line(headings) + markdown_line(rulers);
  for (std::size_t row = 0; row < table.instead.size(); ++row) {
    std::vector<std::string> cells;
    for (const TextColumn& column : table.columns)
      cells.push_back(markdown_escaped(column.cells[row]));
    if (!table.instead[row].empty()) {
      const auto values = cells.begin() + static_cast<std::ptrdiff_t>(table.keys);
      *std::find(values, cells.end(), "") = markdown_escaped(table.instead[row]);
    }
    text += markdown_line(cells);
  }
  return text;
}

std::string markdown_text(std::span<const RunRow> rows, const Columns& columns) {
  if (rows.empty()) return "no runs\n";
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::string text = markdown_escaped(caption(rows)) + "\n\n" + markdown_table(table);
  std::vector<std::string> below = explanations(rows, columns, notes);
  std::ranges::move(remarks(rows), std::back_inserter(below));
  if (!below.empty()) text += '\n';
  for (const std::string& line : below) text += fmt::format("- {}\n", markdown_escaped(line));
  return text;
}

}  // namespace ddpbench::report
