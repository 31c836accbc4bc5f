// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "reports/table/table.h"

#include "base/text.h"
#include "reports/table/collective_table.h"
#include "reports/table/table_cells.h"
#include "reports/table/table_notes.h"

namespace ddpbench::report {

std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width) {
  if (rows.empty()) return "no runs\n";
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  Footnotes notes;
  const TextTable table = run_table(rows, columns, notes);
  std::string text = wrap(caption(rows), limit, 2) + '\n' + render_blocks(table, limit);
  const std::vector<std::string> below = explanations(rows, columns, notes);
  if (!below.empty()) text += '\n';
  for (const std::string& line : below) text += wrap(line, limit, 4);
  return text;
}

std::string render_table(const Report& report, int width) {
  if (!report.collectives.empty()) return render_collectives(report, width);
  const std::vector<RunRow> rows = all_runs(report);
  const std::size_t limit = width > 0 ? static_cast<std::size_t>(width) : 0;
  return table_text(rows, table_columns(rows), width) + cell_lines(report, limit) +
         warning_lines(report, limit);
}

}  // namespace ddpbench::report
