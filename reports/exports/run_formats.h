// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs as text for programs and for the tools of docs/exports.md; table/table.h is for people. Each
// text ends with a newline. A missing figure is left out or empty, never 0. Its reason is given
// where the format has room.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/metrics/history.h"
#include "reports/table/columns.h"

namespace ddpbench::report {

// For benchmark-action/github-action-benchmark: the figures that are `better` with kSmaller or
// kBigger values, as medians over repetitions, without runs that did not end well or had injected
// faults.
std::string github_benchmark_text(std::span<const RunRow> rows, Trait better);

// Milliseconds since 1970 of a report's "2026-01-31T12:00:00Z"; nothing for any other text.
std::optional<std::int64_t> unix_ms(const std::string& utc);

// A format of --format. csv: RFC 4180 with LF line ends; missing figures are empty, and the last
// column, "missing", has their reasons. json: an array of flat objects; a missing figure is null
// beside "<key>_reason".
struct RunFormat {
  std::string name;  // the word of --format
  bool columns;      // whether the user can choose columns
  bool all_columns;  // whether the default is all columns
  std::string (*write)(std::span<const RunRow>, const Columns&, int width);
  // The same of reports that all have collectives; null for formats of runs alone.
  std::string (*write_collectives)(std::span<const ReportFile>, int width) = nullptr;
};
const std::vector<RunFormat>& run_formats();

}  // namespace ddpbench::report
