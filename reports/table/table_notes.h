// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The notes below a table: a summary of repetitions, warnings of what makes figures less certain
// than they look, and the fastest settings.
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

// "On this machine, for simple_cnn on mnist, global batch 128: ddp on 2 devices, 12 % ahead of dp
// on 2 devices (95 % interval 9 to 15).": a line for each work that several settings do, then the
// settings that stand alone. A line before both names the differences that make rows incomparable.
// Wrapped to `width` columns (0: not wrapped), without control characters. Empty where there is
// nothing to compare, and for reports of `ddpbench tune`.
std::string ranking_lines(std::span<const RunRow> rows, int width);

// What the report is of, where no command can complete it: "`ddpbench comm`", "ranks that a
// launcher started" (which make one run). Empty: one can.
std::string beyond_resuming(const Report& report);

// "PATH was interrupted: ...", so that it does not look complete, wrapped to `width` columns (0:
// not wrapped). Empty for other reports.
std::string interruption_lines(const Report& report, const std::string& path, int width);

}  // namespace ddpbench::report
