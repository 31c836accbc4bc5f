// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The tables for people: a row for each run or setting, the marks of the rows and their meaning,
// and what all have in common. A missing figure is never shown as 0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/metrics/conditions.h"
#include "reports/metrics/history.h"
#include "reports/table/columns.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// A row for each of `rows`; behind the columns the marks of each row, where one has any. `notes`
// gets the meaning of the marks, without control characters.
TextTable run_table(std::span<const RunRow> rows, const Columns& columns,
                    std::vector<std::string>& notes);
// The table of these columns, as wide as it is, then the notes, wrapped to `width` characters and
// to 100. Ends with a newline.
std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width);

// The same of a report, without colour: the usual columns and a row for each setting (or the table
// of `ddpbench comm`).
std::string render_table(const Report& report, int width);

// A row for each of `rows`, the fastest of each number of devices first, with what is needed to
// choose.
TextTable compact_table(std::span<const RunRow> rows, std::vector<std::string>& notes);
// The same as text, at most 100 columns wide, of which the least needed go in a narrower terminal.
// `width` as above.
std::string compact_text(std::span<const RunRow> rows, int width);
// "All 6 agree with one device (3 steps)."; empty where nothing was compared.
std::string agreement(std::span<const RunRow> rows);
// The same, and what the brackets of condensed rows mean, or how to learn the noise where this
// command can be repeated.
std::string last_words(std::span<const RunRow> rows, bool shows_intervals);
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

// ---- the marks of rows, and the notes below the table (table_notes.cpp) ----

// The warnings of the reports of these rows, without control characters, with their files where
// there are several: condition_warnings(), and settings that --until-ci left noisy.
std::vector<Warning> row_warnings(std::span<const RunRow> rows);

// The rows with what tables say of them beside their figures: see RunRow. The marks of warnings are
// those of the row's runs and of the runs by which they are divided.
std::vector<RunRow> marked_rows(std::span<const RunRow> rows, const std::vector<Warning>& warnings);
// Beyond the marks of warnings: what is to be known of a marked row before its figures are used.
std::vector<std::string> row_notes(const RunRow& row);

// What the report is of, where no command can complete it: "`ddpbench comm`". Empty: one can.
std::string beyond_resuming(const Report& report);

// "PATH was interrupted: ...", so that it does not look complete, wrapped to `width` columns (0:
// not wrapped). Empty for other reports.
std::string interruption_lines(const Report& report, const std::string& path, int width);

}  // namespace ddpbench::report
