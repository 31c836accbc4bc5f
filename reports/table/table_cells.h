// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a table for people says of each run, and what it must say below. Private to reports/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/table/run_columns.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// A row a run, in the given order; reasons for missing figures go to `notes`.
TextTable run_table(std::span<const RunRow> rows, const Columns& columns, Footnotes& notes);

// What the marks in the cells of these columns mean, a line each, without control characters.
std::vector<std::string> explanations(std::span<const RunRow> rows, const Columns& columns,
                                      const Footnotes& notes);

}  // namespace ddpbench::report
