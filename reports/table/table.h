// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table for people: what all runs share above, a row a run, the reasons of missing figures
// below. A figure that is missing is never 0.
#pragma once

#include <span>
#include <string>

#include "reports/table/run_columns.h"

namespace ddpbench::report {

// The table of these columns, at most `width` columns of text wide where that is possible; 0:
// unlimited. Ends with a newline.
std::string table_text(std::span<const RunRow> rows, const Columns& columns, int width);

// The summary of a report: its table with the usual columns, or that of `ddpbench comm`, and what
// the reader must know of it. No colour.
std::string render_table(const Report& report, int width);

}  // namespace ddpbench::report
