// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What stands below the table beside its footnotes. Private to reports/.
#pragma once

#include <cstddef>
#include <string>

#include "reports/report.h"

namespace ddpbench::report {

// What makes the figures less certain than they look (conditions, noisy cells, restless warm-ups),
// a line each, and the conclusion of `ddpbench tune`. At most `width` columns when width > 0. Each
// names `file` where that is not empty, which is for several reports side by side.
std::string warning_lines(const Report& report, std::size_t width, const std::string& file = "");

}  // namespace ddpbench::report
