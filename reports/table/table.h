// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table for people: a caption with what all runs share, a row for each run or setting, and the
// reasons for missing figures below. A missing figure is never shown as 0.
#pragma once

#include <cstddef>
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

// The table of these columns, then the remarks, at most `width` characters wide where that is
// possible; 0: not limited. Ends with a newline.
std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width);

// The summary of a report, without colour: its table with the usual columns and a row for each
// setting (or that of `ddpbench comm`), and warnings.
std::string render_table(const Report& report, int width);

// A row for each of `rows` with what is needed to choose, and its marks, which `notes` explain
// (compact.cpp).
TextTable compact_table(std::span<const RunRow> rows, std::vector<std::string>& notes);
// The same as text, and what all have in common; at most 100 columns wide, of which the least
// needed go in a narrower terminal. `width` as above.
std::string compact_text(std::span<const RunRow> rows, int width);
// "All 6 agree with one device (3 steps)."; empty where nothing was compared.
std::string agreement(std::span<const RunRow> rows);
// What the time to an accuracy is the time to; empty where no row asks for one.
std::string accuracy_meaning(std::span<const RunRow> rows);
// What the brackets of condensed rows mean, or how to learn the noise where this command can be
// repeated; empty: there is nothing to say.
std::string noise_words(std::span<const RunRow> rows, bool shows_intervals);
// " (about 13 min)": what so many repetitions of these rows would take; empty: that is not known.
std::string time_of(std::span<const RunRow> rows, int repetitions);

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

// The history of settings over commits:
// a block for each setting with a line for each commit: its median step time, how far the
// repetitions reach, and the change from the commit before. At most `width` columns wide where that
// is possible, when width > 0.
std::string render_history(const History& history, int width);
TextTable history_table(const History& history, const HistoryLine& line);

// ---- notes below the table: warnings of what makes figures less certain than they look ----

// A warning of the report of some rows, of conditions of the machine, throttled GPUs, noisy cells
// and unsteady warm-ups.
struct RowWarning {
  std::string text;  // without control characters; with its file where there are several
  std::vector<const Run*> runs;  // that it concerns
  std::string mark;              // the letter of their rows; empty where it concerns all runs

  std::string line() const;  // "warning [a]: a.json: other programs used ..."
};
std::vector<RowWarning> row_warnings(std::span<const RunRow> rows);

// The rows with the marks of these, which are theirs, and of those of the runs by which they are
// divided.
std::vector<RunRow> marked_rows(std::span<const RunRow> rows,
                                const std::vector<RowWarning>& warnings);

// "warning [a]: a.json: other programs used ...", then the conclusions of `ddpbench tune`.
std::vector<std::string> remarks(std::span<const RunRow> rows);

// What the report is of, where no command can complete it: "`ddpbench comm`". Empty: one can.
std::string beyond_resuming(const Report& report);

// "PATH was interrupted: ...", so that it does not look complete, wrapped to `width` columns (0:
// not wrapped). Empty for other reports.
std::string interruption_lines(const Report& report, const std::string& path, int width);

}  // namespace ddpbench::report
