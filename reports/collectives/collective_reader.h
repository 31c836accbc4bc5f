// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the rows of `ddpbench comm`. Private to reports/.
#pragma once

#include "reports/json/json_cursor.h"

namespace ddpbench::report {

// "collectives" and "memory_bandwidth" of a whole report, where they are. Throws ConfigError.
void read_collectives(const JsonCursor& root, Report& report);

}  // namespace ddpbench::report
