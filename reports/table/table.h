// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table for people: a caption with what all runs share, a row for each run or setting, and the
// reasons for missing figures below. A missing figure is never shown as 0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/metrics/history.h"
#include "reports/table/columns.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// One row for each of `rows`. The reasons for missing figures go to `notes`.
TextTable run_table(std::span<const RunRow> rows, const Columns& columns, Footnotes& notes);

// The meaning of each mark in the cells of these columns, one line each, without control
// characters.
std::vector<std::string> explanations(std::span<const RunRow> rows, const Columns& columns,
                                      const Footnotes& notes);

// The table of these columns, at most `width` characters wide where that is possible; 0: not
// limited. Ends with a newline.
std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width);

// The summary of a report, without colour: its table with the usual columns and a row for each
// setting (or that of `ddpbench comm`), and warnings.
std::string render_table(const Report& report, int width);

// The tables of `ddpbench comm`.
struct CollectiveTables {
  std::string caption;
  TextTable collectives;           // a row for each of report.collectives, in their order
  std::vector<std::string> notes;  // shown below the table
  TextTable bandwidth;             // without columns when no bandwidth was measured
};
// REQUIRES: the report has collectives. No text has control characters.
CollectiveTables collective_tables(const Report& report);

// The same as render_table(). REQUIRES: the report has collectives.
std::string render_collectives(const Report& report, int width);

// The history of settings over commits (exports/run_formats.h has it for Apache Otava):
// a block for each setting with a line for each commit: its median step time, how far the
// repetitions reach, and the change from the commit before. At most `width` columns wide where that
// is possible, when width > 0.
std::string render_history(const History& history, int width);

}  // namespace ddpbench::report
