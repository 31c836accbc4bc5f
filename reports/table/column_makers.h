// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The usual columns from one function each, so that table and exports cannot differ. Private to
// reports/.
#pragma once

#include <string>
#include <vector>

#include "base/math.h"
#include "reports/table/column.h"

namespace ddpbench::report {

// How a figure is written in the table: divided by `unit`, with so many decimals.
struct Format {
  double unit = 1;
  int decimals = 0;
};
inline constexpr Format kPlain{1, 0};
inline constexpr Format kMilliseconds{1e-3, 2};
inline constexpr Format kSeconds{1, 2};
inline constexpr Format kPercentage{0.01, 1};
inline constexpr Format kMebibytes{kMiB, 1};

// Heading and documentation of a column.
struct Heading {
  const char* name;
  const char* top;
  const char* bottom;
  const char* about;
  bool joined = false;
};

Column heading_only(const Heading& heading);
// A measured figure under one key.
Column figure_column(const Heading& heading, const char* key, Format format, Better better,
                     Figure (*get)(const Run&));
// A column of a phase; `phase` is its key in the report.
Column phase_column(const Heading& heading, const char* phase);
// A text, or a whole number, that says which run it is.
Column identity_column(const Heading& heading, const char* key, std::string (*get)(const RunRow&));
Column count_column(const Heading& heading, const char* key, Role role,
                    std::int64_t (*get)(const Run&));

// Fields alone, for columns whose cell says several things.
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
// A run that failed before it was timed has nothing to show but why.
bool is_bare(const Run& run);

std::vector<Column> default_columns();  // of the table, in its order
std::vector<Column> further_columns();

}  // namespace ddpbench::report
