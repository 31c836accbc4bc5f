// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What to say of a report whose command was interrupted, so that it does not look complete.
#pragma once

#include <cstddef>
#include <string>

#include "reports/data/report.h"

namespace ddpbench::report {

// The command line that makes the runs which are missing from the interrupted report at `path`:
// its own one with --resume=PATH, quoted for a shell where that is needed. Empty where that command
// would not do: `ddpbench tune`, `ddpbench comm` and ranks that a launcher started (one run) cannot
// be resumed, and a configuration that came as a stream is gone.
std::string resume_command(const Report& report, const std::string& path);

// "PATH was interrupted: ...", wrapped to `width` columns (0: not wrapped), and below it how to go
// on. Empty for other reports.
std::string interruption_lines(const Report& report, const std::string& path, int width);

}  // namespace ddpbench::report
