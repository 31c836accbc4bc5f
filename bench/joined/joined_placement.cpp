// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_placement.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

namespace ddpbench::bench {

std::optional<OwnCores> own_cores(int devices, int threads_per_device,
                                  const launch::RankEnvironment& environment,
                                  const JoinedHosts& hosts, const CpuTopology& topology) {
  const bool several = hosts.are_several();
  const int here =
      several ? static_cast<int>(hosts.ranks(hosts.of(environment.rank)).size()) : devices;
  const bool bound =
      static_cast<int>(topology.cores.size()) <
      std::min(here * threads_per_device, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if ((!bound && !several) || environment.world_size == 1) return std::nullopt;
  const CpuPlacement own = place_cpu_devices(topology, bound ? 1 : here, threads_per_device);
  const int index = bound ? 0 : hosts.index_on_host(environment.rank);
  return OwnCores{own.device_cores.at(static_cast<std::size_t>(index)), own.oversubscribed};
}

bool share_cores(const std::vector<PlacedRank>& ranks) {
  std::map<int, std::pair<std::size_t, std::set<int>>> hosts;  // ranks, and their cores
  for (const PlacedRank& rank : ranks) {
    auto& [count, cores] = hosts[rank.host];
    ++count;
    cores.insert(rank.cores.begin(), rank.cores.end());
  }
  return std::ranges::any_of(hosts, [](const auto& entry) {
    const auto& [count, cores] = entry.second;
    return count > cores.size();
  });
}

}  // namespace ddpbench::bench
