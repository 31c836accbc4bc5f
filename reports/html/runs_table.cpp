// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of all runs as a section of the page: the same columns (columns.h), cells and notes
// as in the terminal. What the devices did and what crossed the links stands in a table of its own.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "reports/html/sections.h"
#include "reports/metrics/condensed_rows.h"
#include "reports/table/columns.h"
#include "reports/table/table.h"
#include "reports/table/table_notes.h"

namespace ddpbench::report::html {
namespace {

std::string heading_of(const Column& column) {
  if (column.top.empty()) return column.bottom;
  // "speed-" over "up" is one word.
  if (column.top.ends_with('-')) return column.top.substr(0, column.top.size() - 1) + column.bottom;
  return column.top + " " + column.bottom;
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

// The cell, sorted by the column's first field.
Cell ordered_cell(const Column& column, const RunRow& row, Footnotes& notes) {
  Cell result = cell(spaced_options(column.cell(row, notes)));
  const Scalar value = column.fields.front().value(row).value;
  if (const auto* real = std::get_if<double>(&value)) result.order = *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    result.order = static_cast<double>(*whole);
  }
  result.missing = std::holds_alternative<std::monostate>(value);
  return result;
}

std::vector<Cell> row_of(const Columns& columns, const RunRow& row, Footnotes& notes) {
  std::vector<Cell> cells;
  bool told = false;
  for (const Column* column : columns) {
    if (!is_bare(*row.run) || has_cell_when_bare(*column, *row.run)) {
      cells.push_back(ordered_cell(*column, row, notes));
      continue;
    }
    const std::string why =
        fmt::format("{} {}", to_string(row.run->status), notes.mark(status_note(*row.run)));
    cells.push_back(missing_cell(told ? "" : why));
    told = true;
  }
  return cells;
}

// Whether the column says something of any row.
bool has_value(const Column& column, const std::vector<RunRow>& rows) {
  return std::ranges::any_of(rows, [&](const RunRow& row) {
    return !std::holds_alternative<std::monostate>(column.fields.front().value(row).value);
  });
}

// The columns that name a row, and those of work and traffic that say something; none: nothing is
// known of either.
Columns work_columns(const std::vector<RunRow>& rows) {
  Columns known;
  for (const char* name : {"busy", "flops", "peak-share", "messages", "wire"}) {
    const Column* const column = find_column(name);
    if (has_value(*column, rows)) known.push_back(column);
  }
  if (known.empty()) return known;
  Columns columns = table_columns(rows);
  std::erase_if(columns, [](const Column* column) { return !column->key; });
  columns.insert(columns.end(), known.begin(), known.end());
  return columns;
}

Table table_of(const char* caption, const std::vector<RunRow>& rows, const Columns& columns) {
  Footnotes notes;
  Table table{caption, {}, {}, {}};
  for (const Column* column : columns) {
    table.columns.push_back({heading_of(*column), column->left, column->about});
  }
  for (const RunRow& row : marked_rows(rows)) table.rows.push_back(row_of(columns, row, notes));
  table.notes = explanations(rows, columns, notes);
  table.cards = true;
  return table;
}

Table table_of(const char* caption, const std::vector<RunRow>& rows) {
  return table_of(caption, rows, table_columns(rows));
}

void write_work(Markup& page, const std::vector<RunRow>& rows) {
  const Columns columns = work_columns(rows);
  if (columns.empty()) return;
  write_folded_table(
      page, "Work and traffic",
      table_of("How busy the devices were, and what crossed the links in a step", rows, columns));
}

}  // namespace

std::vector<RunRow> rows_of(const HtmlInput& input) {
  std::vector<RunRow> rows;
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    const Report& report = input.reports[i];
    for (std::size_t r = 0; r < report.runs.size(); ++r) {
      rows.push_back(
          {&report, &report.runs[r], r, input.reports.size() > 1 ? input.names[i] : "", nullptr});
    }
  }
  return rows;
}

void write_runs(Markup& page, const HtmlInput& input) {
  open_section(page, "runs", "Runs");
  const std::vector<RunRow> rows = rows_of(input);
  const CondensedRows condensed(rows);
  if (is_condensed(condensed.rows())) {
    write_table(page, table_of("All settings", condensed.rows()));
    write_folded_table(page, "Every repetition", table_of("All runs", rows));
  } else {
    write_table(page, table_of("All runs", rows));
  }
  write_work(page, condensed.rows());
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
