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

#include "base/math.h"
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
  Better better = Better::neither;
  std::function<FieldValue(const RunRow&)> value = {};
};

struct Column {
  std::string name;         // for --columns
  std::string top, bottom;  // the two lines of the heading
  std::string about;        // for --columns=help
  bool joined = false;      // stays beside the column before it
  bool key = false;         // says which run it is; in a narrow table every block has it
  bool left = false;        // alignment
  bool in_table = false;    // one of the table's default columns
  // The text for people. The reason for a missing value goes to the notes.
  std::function<std::string(const RunRow&, Footnotes&)> cell = {};
  std::vector<Field> fields = {};  // at least one
};
using Columns = std::vector<const Column*>;

// All columns: those that say which run it is, then the figures.
const std::vector<Column>& run_columns();
// Finds a column by its name, else by a key of its fields; null when there is none.
const Column* find_column(const std::string& name);

// Whether rows stand for several repetitions (metrics/repetitions.h).
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

// "failed: rank 1, step 5, comm: connection lost"; empty when the run is ok.
std::string status_note(const Run& run);
// Whether the run ended badly before a step was timed: it has only a reason to show.
bool is_bare(const Run& run);
// Whether the row of such a run still has a cell for this column. It does for columns that identify
// the run, and for the verdict of verification, which is known before a step is timed.
bool has_cell_when_bare(const Column& column, const Run& run);

// ---- what makes columns: one function defines both the cell of the table and the field of the
// exports, so that they cannot differ. Private to reports/table. ----

// How the table writes a figure: divided by `unit`, with `decimals` digits after the point.
struct Format {
  double unit = 1;
  int decimals = 0;
};
inline constexpr Format kPlain{1, 0};
inline constexpr Format kMilliseconds{1e-3, 2};
inline constexpr Format kSeconds{1, 2};
inline constexpr Format kPercentage{0.01, 1};
inline constexpr Format kMebibytes{kMiB, 1};

// What a run says of itself. An empty text is missing, for the run's reason.
using Fact = std::variant<Figure, std::string, std::int64_t, bool>;
using GetFact = std::function<Fact(const RunRow&)>;

// A field; figures whose keys end in "_bytes" are whole.
Field field(const char* key, Role role, GetFact get, Better better = Better::neither);
// Adds the cell and a field of one value to a column that has a heading.
Column with_value(Column column, const char* key, Role role, const GetFact& get);
// The same of a figure that was measured.
Column with_figure(Column column, const char* key, Format format, Figure (*get)(const Run&),
                   Better better = Better::neither);
// The same of the time (or the ratio) of a phase in a step; `phase` is its key in the report.
Column with_phase(Column column, const char* phase);
// Replaces the run's reason for a missing text by `reason`, and its cell by "-". With "" nothing is
// missing: programs get an empty text.
Column where_absent(Column column, const char* reason);

Figure phase_figure(const Run& run, const std::string& phase);
std::string fixed(double value, Format format);
// "-(1)".
std::string missing_cell(const std::string& reason, Footnotes& notes);
std::string figure_cell(const Figure& figure, Format format, const Run& run, Footnotes& notes);

std::vector<Column> setting_columns();     // which run it is
std::vector<Column> figure_columns();      // what it measured
std::vector<Column> repetition_columns();  // what repetitions of a setting show together

}  // namespace ddpbench::report
