// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The cells of a table for people, and the explanations below it. Private to reports/.
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

}  // namespace ddpbench::report
