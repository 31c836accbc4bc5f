// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes columns. One function defines both the cell of the table and the field of the exports, so
// that they cannot differ. Private to reports/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "base/math.h"
#include "reports/table/columns.h"

namespace ddpbench::report {

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
