// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs as text for programs and for the tools that docs/exports.md names; table/table.h is for
// people. All end with a newline. A figure that is missing is left out or empty, never 0, and its
// reason given where the format has room.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reports/table/run_columns.h"

namespace ddpbench::report {

// GitHub's tables.
std::string markdown_text(std::span<const RunRow> rows, const Columns& columns);
// RFC 4180 with LF line ends: a header, a row a run. Missing figures are empty; the last column,
// "missing", has their reasons.
std::string csv_text(std::span<const RunRow> rows, const Columns& columns);
// An array of flat objects; null beside "<key>_reason".
std::string json_runs_text(std::span<const RunRow> rows, const Columns& columns);

// Array of {name, unit, value, range, extra} for benchmark-action/github-action-benchmark, of the
// figures for which smaller (customSmallerIsBetter) or bigger ones are better. The median over
// repetitions of a run; runs that did not end well are left out, so is what was injected.
std::string github_benchmark_text(std::span<const RunRow> rows, Better direction);
// Prometheus' text format, for the node exporter's textfile collector: base units, a sample for
// every label set once.
std::string prometheus_text(std::span<const RunRow> rows);
// MLPerf's log lines (":::MLLOG {...}"), a namespace a run when there are several. Times of day are
// computed from the run's start, where that is not recorded from the report's, and durations.
std::string mllog_text(std::span<const RunRow> rows);

// The formats, and how --format names them.
struct RunFormat {
  std::string name;   // for --format
  std::string about;  // who reads it
  bool columns;       // whether columns can be chosen
  bool all_columns;   // all of them are shown where no column was chosen
  std::function<std::string(std::span<const RunRow>, const Columns&, int width)> write;
};
const std::vector<RunFormat>& run_formats();

}  // namespace ddpbench::report
