// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_placement.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace ddpbench::bench {

void place_rank(TrainingJob& job, const launch::RankEnvironment& environment,
                const JoinedHosts& hosts, const CpuTopology& topology) {
  const bool several = hosts.are_several();
  const int all = job.cell.servers + (job.has_cpu_servers() ? 0 : job.cell.world_size);
  const int devices =
      several ? static_cast<int>(hosts.ranks(hosts.of(environment.rank)).size()) : all;
  const bool bound = static_cast<int>(topology.cores.size()) <
                     std::min(devices * job.options.threads_per_device,
                              static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if ((!bound && !several) || environment.world_size == 1) return;
  const CpuPlacement own =
      place_cpu_devices(topology, bound ? 1 : devices, job.options.threads_per_device);
  const int index = bound ? 0 : hosts.index_on_host(environment.rank);
  job.cores.at(static_cast<std::size_t>(environment.rank)) =
      own.device_cores.at(static_cast<std::size_t>(index));
  if (job.gpus.empty()) job.oversubscribed = own.oversubscribed;
  // The launcher dealt out the cores, and each rank sees only its own.
  if (job.has_cpu_servers()) job.oversubscribed = shares_gpus(job);
}

}  // namespace ddpbench::bench
