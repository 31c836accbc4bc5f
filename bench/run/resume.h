// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// --resume: decides whether an earlier report and a new command are the same experiment. Pure.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::bench {

// Returns the differences between the report to complete and the one that this command begins, one
// phrase each. It compares machine, libraries, the program itself, and configuration, except where
// things are written, how runs are ordered and how many repetitions there are. Empty: the runs of
// both can be in one report.
std::vector<std::string> resume_differences(const report::Report& earlier,
                                            const report::Report& now);

// Throws ConfigError for a report of another command than one that makes runs.
void check_has_runs_to_resume(const report::Report& earlier, const std::string& path);

// Throws ConfigError with all differences. `path` is the earlier report's.
void check_resumable(const report::Report& earlier, const report::Report& now,
                     const std::string& path);

}  // namespace ddpbench::bench
