// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The notes below a table: warnings of what makes figures less certain than they look, and the
// fastest settings.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"

namespace ddpbench::report {

// The rows with the marks of their warnings.
std::vector<RunRow> marked_rows(std::span<const RunRow> rows);

// Warnings of the reports of these rows, of conditions of the machine, throttled GPUs, noisy cells
// and unsteady warm-ups: "warning [a]: a.json: in 1 of 3 runs ...", without control characters,
// with the letter of the rows that it concerns and, where there are several, its file.
std::vector<std::string> warning_texts(std::span<const RunRow> rows);
// The same, then the conclusions of `ddpbench tune`.
std::vector<std::string> remarks(std::span<const RunRow> rows);
// The same as text in lines of at most `width` columns when width > 0.
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
