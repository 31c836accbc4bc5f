// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "bench/joined/joined_hosts.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

struct OwnCores {
  std::vector<int> cores;       // OS processors of this rank's device
  bool oversubscribed = false;  // the devices of this host share cores
};

// The cores of this rank's device: each rank of a joined world places itself. Where the launcher
// has bound it to some (mpirun does), these are kept; otherwise the ranks of a host divide it as a
// supervisor would. `devices`: those of the world that need cores. `hosts` has all ranks, or none
// where the rank is alone. nullopt: the plan of a supervisor holds.
std::optional<OwnCores> own_cores(int devices, int threads_per_device,
                                  const launch::RankEnvironment& environment,
                                  const JoinedHosts& hosts, const CpuTopology& topology);

struct PlacedRank {
  int host = 0;            // its number
  std::vector<int> cores;  // OS processors of its device
};

// Whether a host has more ranks than cores that they may use between them.
bool share_cores(const std::vector<PlacedRank>& ranks);

}  // namespace ddpbench::bench
