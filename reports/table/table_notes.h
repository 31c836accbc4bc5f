// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The notes below a table: a summary of repetitions, and warnings of what makes figures less
// certain than they look.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// The name of each of report.cells, as in charts: "ddp on 2 devices, cap 25".
std::vector<std::string> cell_names(const Report& report);

// One line for each cell: its median step time and how well that is known. If cells have too few
// repetitions for an interval, one line says so for all. Empty when no run was repeated. At most
// `width` columns when width > 0. Without control characters.
std::string cell_lines(const Report& report, std::size_t width);

// Warnings of conditions of the machine, throttled GPUs, noisy cells and unsteady warm-ups: one
// sentence each, without control characters and without the word "warning:".
std::vector<std::string> warnings(const Report& report);

// The warnings, one line each, then the conclusion of `ddpbench tune`. At most `width` columns when
// width > 0. Each line names `file` unless that is empty; it is for several reports side by side.
std::string warning_lines(const Report& report, std::size_t width, const std::string& file = "");

}  // namespace ddpbench::report
