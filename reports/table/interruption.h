// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What to say of a report whose command was interrupted, so that it does not look complete.
#pragma once

#include <cstddef>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

// What the report is of, where no command can complete it: "`ddpbench comm`", "ranks that a
// launcher started" (which make one run). Empty: one can.
std::string beyond_resuming(const Report& report);

// The command line that makes the runs which are missing from the interrupted report at `path`:
// its own one with --resume=PATH, quoted for a shell where that is needed. Empty where that command
// would not do: beyond_resuming(), or the configuration came as a stream, which is gone.
std::string resume_command(const Report& report, const std::string& path);

// "PATH was interrupted: ...", wrapped to `width` columns (0: not wrapped), and below it how to go
// on. Empty for other reports.
std::string interruption_lines(const Report& report, const std::string& path, int width);

}  // namespace ddpbench::report
