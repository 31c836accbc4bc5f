// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The section on reports of `ddpbench comm`: the same tables as in the terminal.
#include <cstdlib>

#include "base/text.h"
#include "reports/html/sections.h"
#include "reports/pictures/picture.h"
#include "reports/table/table.h"

namespace ddpbench::report::html {
namespace {

// "12.5", "(0.3)" and "3*" sort as numbers, "-(1)" as missing, other texts as words.
Cell cell_of(const std::string& text) {
  if (text.starts_with('-')) return missing_cell(text);
  const std::size_t skipped = text.starts_with('(') ? 1 : 0;
  char* end = nullptr;
  const double value = std::strtod(text.c_str() + skipped, &end);
  return end == text.c_str() + skipped ? cell(text) : cell(value, text);
}

Table page_table(const TextTable& text, const std::string& caption) {
  Table table{caption, {}, {}, {}};
  std::string top;
  for (const TextColumn& column : text.columns) {
    if (!column.joined) top = column.top;  // a joined column shares the heading before it
    table.columns.push_back({top.empty() ? column.bottom : top + " " + column.bottom, column.left});
  }
  for (std::size_t row = 0; row < text.instead.size(); ++row) {
    std::vector<Cell> cells;
    for (const TextColumn& column : text.columns) cells.push_back(cell_of(column.cells[row]));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

void write_collectives(Markup& page, const std::string& name, const Report& report) {
  page.open("article").leaf("h3", name);
  const CollectiveTables tables = collective_tables(report);
  Table table = page_table(tables.collectives, tables.caption);
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      // Its texts have several units.
      if (table.columns[c].head == "size") {
        table.rows[i][c].order = static_cast<double>(report.collectives[i].bytes);
      }
    }
  }
  table.notes = tables.notes;
  write_table(page, table);
  if (!tables.bandwidth.columns.empty()) {
    write_table(page, page_table(tables.bandwidth, "Memory bandwidth"));
  }
  page.close().trusted("\n");
}

Table bandwidth_table(const BandwidthChart& chart) {
  Table table{"Bus bandwidth, in GB/s",
              {{"op", true}, {"line", true}, {"size"}, {"median"}, {"least"}, {"most"}, {"bound"}},
              {},
              {}};
  for (const BandwidthPoint& point : chart.points) {
    const std::string size = size_text(point.bytes) + (point.oversubscribed ? "*" : "");
    std::vector<Cell> row = {cell(chart.operations[point.panel]),
                             cell(chart.series[point.series].name),
                             cell(static_cast<double>(point.bytes), size)};
    const Spread& rate = point.gb_per_s;
    for (const double value : {rate.median, rate.min, rate.max}) {
      row.push_back(cell(value, pictures::number(value)));
    }
    row.push_back(point.bound_gb_per_s
                      ? cell(*point.bound_gb_per_s, pictures::number(*point.bound_gb_per_s))
                      : missing_cell());
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace

void write_collectives(Markup& page, const HtmlInput& input) {
  open_section(page, "collectives", "Collectives");
  for (std::size_t i = 0; i < input.reports.size(); ++i) {
    if (input.reports[i].collectives.empty()) continue;
    write_collectives(page, input.names[i], input.reports[i]);
  }
  const BandwidthChart chart = bandwidth_chart(input.reports);
  if (chart.empty_reason.empty()) {
    write_figure(page, pictures::bandwidth_picture(chart, pictures::Medium::page),
                 bandwidth_table(chart));
  }
  page.close().trusted("\n");
}

}  // namespace ddpbench::report::html
