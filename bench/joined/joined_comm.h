// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench comm` among the ranks that mpirun, srun, torchrun or a user started: this process is
// one of them, on one host or on several. Rank 0 collects, prints and writes.
#pragma once

#include <string>
#include <vector>

#include "bench/options/options.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Returns this rank's exit code. Throws ConfigError and UnavailableError, before anything is
// measured, for what the launch cannot do.
int join_comm(const Options& options, const std::vector<std::string>& arguments,
              const launch::RankEnvironment& environment);

}  // namespace ddpbench::bench
