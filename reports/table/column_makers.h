// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes columns. One function defines both the cell of the table and the field of the exports, so
// that they cannot differ. Private to reports/.
#pragma once

#include <string>
#include <vector>

#include "base/math.h"
#include "reports/table/column.h"

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

// The name, heading and documentation of a column.
struct Heading {
  const char* name;
  const char* top;
  const char* bottom;
  const char* about;
  bool joined = false;
};

Column heading_only(const Heading& heading);
// A column of one measured figure.
Column figure_column(const Heading& heading, const char* key, Format format, Better better,
                     Figure (*get)(const Run&));
// The time (or the ratio) of a phase in a step; `phase` is its key in the report.
Figure phase_figure(const Run& run, const std::string& phase);
// A column of a phase.
Column phase_column(const Heading& heading, const char* phase);
// Columns of a text or an integer. An identity says which run it is.
Column identity_column(const Heading& heading, const char* key, std::string (*get)(const RunRow&));
Column count_column(const Heading& heading, const char* key, Role role,
                    std::int64_t (*get)(const Run&));

// Fields for columns whose cell shows several values.
Field figure_field(const char* key, Better better, Figure (*get)(const Run&));
Field text_field(const char* key, Role role, std::string (*get)(const RunRow&));
Field count_field(const char* key, Role role, std::int64_t (*get)(const Run&));
Field flag_field(const char* key, bool (*get)(const Run&));

std::string fixed(double value, Format format);
// "-(1)".
std::string missing_cell(const std::string& reason, Footnotes& notes);
std::string figure_cell(const Figure& figure, Format format, const Run& run, Footnotes& notes);

// "failed: rank 1, step 5, comm: connection lost"; empty when the run is ok.
std::string status_note(const Run& run);
// Whether the run ended badly before a step was timed: it has only a reason to show.
bool is_bare(const Run& run);
// Whether the row of such a run still has a cell for this column. It does for columns that identify
// the run, and for the verdict of verification, which is known before a step is timed.
bool has_cell_when_bare(const Column& column, const Run& run);

std::vector<Column> default_columns();  // those of the table, in its order
std::vector<Column> further_columns();
std::vector<Column> repetition_columns();  // what repetitions of a setting show together

}  // namespace ddpbench::report
