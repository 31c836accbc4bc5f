// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What makes figures less certain than they look. Private to reports/ but for warning_lines.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Conditions of the machine, throttled GPUs, noisy cells, restless warm-ups: a sentence each,
// without control characters and without "warning:".
std::vector<std::string> warnings(const Report& report);

// These, a line each, and the conclusion of `ddpbench tune`, for below the table. At most `width`
// columns when width > 0. Each names `file` where that is not empty, which is for several reports
// side by side.
std::string warning_lines(const Report& report, std::size_t width, const std::string& file = "");

}  // namespace ddpbench::report
