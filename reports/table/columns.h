// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All facts about a run, each one once: as people read it in a table, and with the key and unit
// under which programs read it. All formats (table, markdown, csv, json, ...) take them
// from this list.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "reports/data/report_view.h"

namespace ddpbench::report {

// monostate where the figure is missing; FieldValue::reason then says why.
using Scalar = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
struct FieldValue {
  Scalar value;
  std::string reason = {};
  // A number, or a flag as 0 or 1; nothing for text and missing values.
  std::optional<double> number() const;
};

enum Trait : unsigned {
  // These are traits of a field. One without the first two is a figure that was measured.
  kIdentity = 1U << 0U,  // says which run it is
  kRemark = 1U << 1U,    // another fact
  kSmaller = 1U << 2U,   // is better
  kBigger = 1U << 3U,
  // What a figure is over repetitions: the median, for these the median of rates, the largest, none
  // where one has none, and what the getter says itself.
  kRate = 1U << 4U,
  kLargest = 1U << 5U,
  kAll = 1U << 6U,
  kByGetter = 1U << 7U,
  // These are traits of a column.
  kLeft = 1U << 8U,   // alignment
  kUsual = 1U << 9U,  // the full table has it, where a row has a value
};

// A value under the report's key, which names the unit ("step_time_median_s").
struct Field {
  std::string key;
  FieldValue (*get)(const RunRow&) = nullptr;  // null: the time (or the ratio) of the phase `key`
  unsigned traits = 0;
  const char* absent = nullptr;  // why there is no text, "": programs get ""; null: its own reason

  bool is(unsigned any_of) const { return (traits & any_of) != 0; }
  bool is_bytes() const { return key.ends_with("_bytes"); }  // whole
  // Returns, for a row of repetitions, the value of all together.
  FieldValue value(const RunRow& row) const;
};

// How the table writes a figure: divided by `unit`, with `decimals` digits after the point.
struct Format {
  double unit = 1;
  int decimals = 0;
};

struct Column {
  std::string name;  // for --columns
  std::string heading;
  std::string about;          // for --columns=help
  std::vector<Field> fields;  // at least one
  Format format = {};         // of the first field

  bool is(unsigned any_of) const { return fields.front().is(any_of); }
  // The text for people; "-" for a missing value.
  std::string cell(const RunRow& row) const;
};
using Columns = std::vector<const Column*>;

// All columns, in the order of tables and exports.
const std::vector<Column>& run_columns();
// Finds a column by its name, else by a key of its fields, else by its heading; null when there is
// none.
const Column* find_column(const std::string& name);

// Whether rows stand for several repetitions (metrics/repetitions.h).
bool is_condensed(std::span<const RunRow> rows);

// The columns that name a row: strategy and devices, before them the report where there are several
// files.
Columns name_columns(std::span<const RunRow> rows);
// The columns of the full table where the user chose none: those, the repetition (of condensed rows
// their number), and the usual ones.
Columns usual_columns(std::span<const RunRow> rows);
Columns all_columns();

// Sorts rows by the first field of `column`. The sort is stable; missing values come last in both
// directions.
void sort_rows(std::vector<RunRow>& rows, const Column& column, bool descending);

// "failed: rank 1, step 5, comm: connection lost"; empty when the run is ok.
std::string status_note(const Run& run);
// Whether the run ended badly before a step was timed: it has only a reason to show.
bool is_bare(const Run& run);

}  // namespace ddpbench::report
