// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a world that a launcher started may be asked for, and the run that this comes to.
#pragma once

#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"

namespace ddpbench::bench {

// Throws ConfigError, naming them, when options ask for more than one run.
void refuse_lists(const Options& options);

// The one run that a world of `processes` makes. `devices`: how many a process finds. Throws
// ConfigError when strategy, --gpus or --servers want another world.
RunCell joined_cell(const Options& options, int processes, int devices);

// How many of the processes are servers on CPU devices, whatever kind the workers' devices are.
int cpu_servers(const Options& options);

}  // namespace ddpbench::bench
