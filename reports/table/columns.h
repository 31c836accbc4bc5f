// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All facts about a run, each one once: as people read it in a table, and with the key and unit
// under which programs read it. All formats (table, markdown, csv, json, Prometheus, ...) take them
// from this list.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "reports/data/report_view.h"
#include "reports/table/table_layout.h"

namespace ddpbench::report {

// monostate where the figure is missing; FieldValue::reason then says why.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
struct FieldValue {
  Scalar value;
  std::string reason = {};
};

enum class Role : std::uint8_t {
  identity,  // says which run it is
  measure,   // a figure that was measured
  remark,    // other facts
};
enum class Better : std::uint8_t { neither, smaller, bigger };

// A value under the report's key, which names the unit ("step_time_median_s").
struct Field {
  std::string key;
  Role role = Role::remark;
  std::function<FieldValue(const RunRow&)> value = {};
  Better better = Better::neither;
};

// Whether the table has a column where the user chose none.
enum class InTable : std::uint8_t {
  never,
  where_varying,  // where the rows differ in it
  for_some_rows,  // where table_columns() finds it of use
  always
};

struct Column {
  std::string name;           // for --columns
  std::string top, bottom;    // the two lines of the heading
  std::string about;          // for --columns=help
  std::vector<Field> fields;  // at least one
  InTable in_table = InTable::never;
  bool joined = false;  // stays beside the column before it
  bool key = false;     // says which run it is; in a narrow table every block has it
  bool left = false;    // alignment
  // The text for people. The reason for a missing value goes to the notes.
  std::function<std::string(const RunRow&, Footnotes&)> cell = {};
};
using Columns = std::vector<const Column*>;

// All columns: those that say which run it is, then the figures.
const std::vector<Column>& run_columns();
// Finds a column by its name, else by a key of its fields, else by its heading of one line; null
// when there is none.
const Column* find_column(const std::string& name);

// Whether rows stand for several repetitions (metrics/repetitions.h).
bool is_condensed(std::span<const RunRow> rows);

// The columns of the table where the user chose none: the usual ones, the repetition (of condensed
// rows their number, and the intervals), what rows differ in, and the report where there are
// several files.
Columns table_columns(std::span<const RunRow> rows);
Columns all_columns();

// Sorts rows by the first field of `column`. The sort is stable; missing values come last in both
// directions.
void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending);

// "failed: rank 1, step 5, comm: connection lost"; empty when the run is ok.
std::string status_note(const Run& run);
// Whether the run ended badly before a step was timed: it has only a reason to show.
bool is_bare(const Run& run);
// Whether the row of such a run still has a cell for this column. It does for columns that identify
// the run, and for the verdict of verification, which is known before a step is timed.
bool has_cell_when_bare(const Column& column, const Run& run);

// ---- what columns are made of (run_columns.cpp). Private to reports/table. ----

// How the table writes a figure: divided by `unit`, with `decimals` digits after the point.
struct Format {
  double unit = 1;
  int decimals = 0;
};

enum Trait : unsigned {
  kJoined = 1U << 0U,
  kLeft = 1U << 1U,
  kKey = 1U << 2U,
  kAlways = 1U << 3U,
  kVarying = 1U << 4U,
  kForSome = 1U << 5U,
  kIdentity = 1U << 6U,
  kRemark = 1U << 7U,
  kSmaller = 1U << 8U,
  kBigger = 1U << 9U,
  // What a figure is over repetitions: the median, for these the median of rates, the largest, none
  // where one has none, and what the getter says itself.
  kRate = 1U << 10U,
  kLargest = 1U << 11U,
  kAll = 1U << 12U,
  kByGetter = 1U << 13U,
};

using Get = FieldValue (*)(const RunRow&);
// The figure, or the reason why it is missing.
FieldValue said(const Figure& figure, const Run& run);

struct ColumnRow {
  const char *name, *top, *bottom, *about, *key;
  Get get = nullptr;             // null: the time (or the ratio) of the phase `key`
  unsigned traits = 0;           // without kIdentity and kRemark it is a figure that was measured
  Format format = {1e-3, 2};     // milliseconds
  const char* absent = nullptr;  // why there is no text, "": programs get ""; null: its own reason
};

// A further field of a column.
struct FieldRow {
  const char *column, *key;
  Get get;
  unsigned traits = kRemark;
};
std::span<const ColumnRow> column_rows();
std::span<const FieldRow> further_fields();

}  // namespace ddpbench::report
