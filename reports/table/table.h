// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table for people: a caption with what all runs share, a row for each run or setting, and the
// reasons for missing figures below. A missing figure is never shown as 0.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/table/run_columns.h"
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

}  // namespace ddpbench::report
