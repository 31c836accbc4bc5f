// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All facts about a run, each one once. All formats (table, markdown, csv, json, Prometheus, ...)
// take them from this list.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/table/column.h"

namespace ddpbench::report {

// All columns: those of the table in its order, then the others.
const std::vector<Column>& run_columns();
// Finds a column by its name, else by a key of its fields; null when there is none.
const Column* find_column(const std::string& name);

// Whether rows stand for several repetitions (metrics/condensed_rows.h).
bool is_condensed(std::span<const RunRow> rows);

// The columns of the table where the user chose none: `in_table`, the repetition (of condensed rows
// their number, and the intervals) and the strategy's options where they differ, and the report
// where there are several files.
Columns table_columns(std::span<const RunRow> rows);
// Whether table_columns() adds the column for some rows, though it is not `in_table`.
bool may_join_table(const Column& column);
Columns all_columns();

// Sorts rows by the first field of `column`. The sort is stable; missing values come last in both
// directions.
void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending);

}  // namespace ddpbench::report
