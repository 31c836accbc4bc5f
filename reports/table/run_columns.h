// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All that can be said of a run, each thing once. All formats (table, markdown, csv, json,
// Prometheus, ...) come from this list.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/table/column.h"

namespace ddpbench::report {

// Every column, those of the table in its order, then the others.
const std::vector<Column>& run_columns();
// By its name, else by a key of its fields; null when there is none.
const Column* find_column(const std::string& name);

// What the table shows where no column was chosen: `in_table`, the repetition and the strategy's
// options where there are several, the report where there are several files.
Columns table_columns(std::span<const RunRow> rows);
Columns all_columns();

// Rows in the order of a column's first field, stable; missing ones last in both directions.
void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending);

}  // namespace ddpbench::report
