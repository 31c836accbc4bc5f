// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Joins a world that torchrun, mpirun or srun started: this process is one rank of one run. Rank 0
// serves the store, decodes the data set for all, collects the results, prints and writes.
#pragma once

#include <string>
#include <vector>

#include "bench/joined/joined_report.h"
#include "bench/options/options.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Returns this rank's exit code. `reader`: who the report is for. Throws ConfigError, before
// anything starts, for what a joined world cannot do (lists, a device count that is not the
// world's).
int join_world(Options options, const launch::RankEnvironment& environment,
               const std::vector<std::string>& arguments, ReportReader reader = ReportReader::user);

// The same of a rank that measures collectives (`ddpbench comm`).
int join_comm(const Options& options, const std::vector<std::string>& arguments,
              const launch::RankEnvironment& environment);

}  // namespace ddpbench::bench
