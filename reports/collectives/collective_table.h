// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The table of `ddpbench comm`: a row a collective and size. Private to reports/.
#pragma once

#include <string>

#include "reports/report.h"

namespace ddpbench::report {

// As render_table. REQUIRES: the report has collectives.
std::string render_collectives(const Report& report, int width);

}  // namespace ddpbench::report
