// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"

namespace ddpbench {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CudaDeviceInfo, ordinal, name, uuid, pci_bus_id,
                                   compute_capability, multiprocessors, memory_bytes, l2_bytes,
                                   numa_node)

}  // namespace ddpbench

namespace ddpbench::bench {
namespace {

std::string visible_key(int rank) { return fmt::format("joined/gpus/{}", rank); }

const CudaDeviceInfo* find_gpu(const CudaProbe& probe, const std::string& uuid) {
  const auto found = std::ranges::find(probe.devices, uuid, &CudaDeviceInfo::uuid);
  return found == probe.devices.end() ? nullptr : &*found;
}

// Returns the number of `gpu` in `world`, and adds it there if it is missing.
int number_in_world(CudaProbe& world, const CudaDeviceInfo& gpu) {
  if (const CudaDeviceInfo* const known = find_gpu(world, gpu.uuid)) return known->ordinal;
  world.devices.push_back(gpu);
  return world.devices.back().ordinal = static_cast<int>(world.devices.size()) - 1;
}

}  // namespace

nlohmann::json to_json(const VisibleGpus& visible) {
  return {{"local_rank", visible.local_rank},
          {"reason", visible.probe.reason},
          {"gpus", visible.probe.devices}};
}

VisibleGpus visible_gpus_from_json(const nlohmann::json& json) {
  VisibleGpus gpus;
  gpus.local_rank = json.at("local_rank");
  gpus.probe.reason = json.at("reason");
  json.at("gpus").get_to(gpus.probe.devices);
  return gpus;
}

JoinedGpus assign_gpus(const std::vector<VisibleGpus>& visible) {
  JoinedGpus gpus;
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    const CudaProbe& probe = visible[rank].probe;
    if (!probe.devices.empty()) continue;
    gpus.world.reason = fmt::format("rank {}: {}", rank, probe.reason);
    return gpus;
  }
  gpus.world.driver_version = visible.front().probe.driver_version;
  gpus.world.runtime_version = visible.front().probe.runtime_version;
  for (const auto& [local_rank, probe] : visible) {
    const std::size_t index = static_cast<std::size_t>(local_rank) % probe.devices.size();
    const CudaDeviceInfo& gpu = probe.devices[index];
    gpus.ordinals.push_back(gpu.ordinal);
    gpus.numbers.push_back(number_in_world(gpus.world, gpu));
  }
  return gpus;
}

void give_own_gpus(const JoinedGpus& own, std::vector<int>& gpus) {
  if (!gpus.empty()) std::ranges::copy_n(own.numbers.begin(), std::ssize(gpus), gpus.begin());
}

std::vector<VisibleGpus> exchange_gpus(comm::Store& store, int rank, int processes,
                                       const VisibleGpus& own, double timeout_s) {
  if (rank < processes) store.set(visible_key(rank), to_json(own).dump());
  std::vector<VisibleGpus> all;
  for (int peer = 0; peer < processes; ++peer) {
    if (peer == rank) {
      all.push_back(own);
      continue;
    }
    all.push_back(
        visible_gpus_from_json(nlohmann::json::parse(store.get(visible_key(peer), timeout_s))));
  }
  return all;
}

std::optional<std::vector<int>> own_cores(int devices, int threads_per_device,
                                          const launch::RankEnvironment& environment,
                                          const JoinedHosts& hosts, const CpuTopology& topology) {
  const bool several = hosts.are_several();
  const int here =
      several ? static_cast<int>(hosts.ranks(hosts.of(environment.rank)).size()) : devices;
  const bool bound =
      static_cast<int>(topology.cores.size()) <
      std::min(here * threads_per_device, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  if ((!bound && !several) || environment.world_size == 1) return std::nullopt;
  // In turn also where they are bound: all may be bound to the same cores.
  const int index = several ? hosts.index_on_host(environment.rank) : environment.rank % here;
  return place_cpu_devices(topology, here, threads_per_device)
      .device_cores.at(static_cast<std::size_t>(index));
}

bool share_cores(const std::vector<PlacedRank>& ranks) {
  std::map<int, std::pair<std::size_t, std::set<int>>> hosts;  // threads, and their cores
  for (const PlacedRank& rank : ranks) {
    auto& [count, cores] = hosts[rank.host];
    count += rank.cores.size();
    cores.insert(rank.cores.begin(), rank.cores.end());
  }
  return std::ranges::any_of(hosts, [](const auto& entry) {
    const auto& [count, cores] = entry.second;
    return count > cores.size();
  });
}

}  // namespace ddpbench::bench
