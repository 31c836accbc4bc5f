// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The notes below a table: a summary of repetitions, and warnings of what makes figures less
// certain than they look.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::report {

// The name of each of report.cells, as in charts: "ddp on 2 devices, cap 25".
std::vector<std::string> cell_names(const Report& report);

// One line for each cell: its median step time and how well that is known. If cells have too few
// repetitions for an interval, one line says so for all. Empty when no run was repeated. At most
// `width` columns when width > 0. Without control characters.
std::string cell_lines(const Report& report, std::size_t width);

// Warnings of conditions of the machine, throttled GPUs, noisy cells and unsteady warm-ups: one
// sentence each, without control characters and without the word "warning:".
std::vector<Warning> warnings(const Report& report);

// A warning of one of the reports of these rows.
struct RowWarning {
  const Report* report = nullptr;
  std::string file;  // RunRow::file
  Warning warning;
  std::string mark;  // the letter of the rows that it concerns; empty where it concerns all
};
std::vector<RowWarning> row_warnings(std::span<const RunRow> rows);
// "warning [a]: a.json: in 1 of 3 runs ...", without the file where there is only one.
std::string to_string(const RowWarning& warning, bool several_files);

// The rows with the marks of their warnings.
std::vector<RunRow> marked_rows(std::span<const RunRow> rows);

// The warnings of the reports of these rows, one line each, then the conclusions of `ddpbench
// tune`. At most `width` columns when width > 0. Each line names its file where there are several.
std::string warning_lines(std::span<const RunRow> rows, std::size_t width);

}  // namespace ddpbench::report
