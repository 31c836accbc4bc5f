// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What repetitions come to, for people. Private to reports/ and the commands that show tables.
#pragma once

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

}  // namespace ddpbench::report
