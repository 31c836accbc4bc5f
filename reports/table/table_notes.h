// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands below a table: what repetitions come to, and what makes figures less certain than
// they look.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// "ddp on 2 devices, bucket_cap_mb=25": of each of report.cells, told apart as in charts.
std::vector<std::string> cell_names(const Report& report);

// A line a cell with its median step time and how well that is known; where too few repetitions
// leave an interval, one more line says so for all cells. Empty when nothing was repeated. At most
// `width` columns when width > 0; without control characters.
std::string cell_lines(const Report& report, std::size_t width);

// Conditions of the machine, throttled GPUs, noisy cells, restless warm-ups: a sentence each,
// without control characters and without "warning:".
std::vector<std::string> warnings(const Report& report);

// These, a line each, and the conclusion of `ddpbench tune`, for below the table. At most `width`
// columns when width > 0. Each names `file` where that is not empty, which is for several reports
// side by side.
std::string warning_lines(const Report& report, std::size_t width, const std::string& file = "");

}  // namespace ddpbench::report
