// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/joined/joined_hosts.h"
#include "bench/plan/training_job.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Gives this rank's device its cores in `job`: each rank of a joined world places itself. Where the
// launcher has bound it to some (mpirun does), these are kept; otherwise the ranks of a host divide
// it as a supervisor would. `hosts` has all ranks, or none where the rank is alone.
void place_rank(TrainingJob& job, const launch::RankEnvironment& environment,
                const JoinedHosts& hosts, const CpuTopology& topology);

}  // namespace ddpbench::bench
