// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/joined_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace ddpbench::bench {
namespace {

std::string key_of(int rank) { return fmt::format("joined/gpus/{}", rank); }

nlohmann::json to_json(const CudaDeviceInfo& gpu) {
  return {{"ordinal", gpu.ordinal},
          {"name", gpu.name},
          {"uuid", gpu.uuid},
          {"pci_bus_id", gpu.pci_bus_id},
          {"compute_capability", gpu.compute_capability},
          {"multiprocessors", gpu.multiprocessors},
          {"memory_bytes", gpu.memory_bytes},
          {"l2_bytes", gpu.l2_bytes},
          {"numa_node", gpu.numa_node}};
}

CudaDeviceInfo gpu_from_json(const nlohmann::json& json) {
  return {.ordinal = json.at("ordinal"),
          .name = json.at("name"),
          .uuid = json.at("uuid"),
          .pci_bus_id = json.at("pci_bus_id"),
          .compute_capability = json.at("compute_capability"),
          .multiprocessors = json.at("multiprocessors"),
          .memory_bytes = json.at("memory_bytes"),
          .l2_bytes = json.at("l2_bytes"),
          .numa_node = json.at("numa_node")};
}

const CudaDeviceInfo* find(const std::vector<CudaDeviceInfo>& gpus, const std::string& uuid) {
  const auto found = std::ranges::find(gpus, uuid, &CudaDeviceInfo::uuid);
  return found == gpus.end() ? nullptr : &*found;
}

bool all_see_the_same(const std::vector<CudaProbe>& visible) {
  return std::ranges::all_of(visible, [&](const CudaProbe& probe) {
    return std::ranges::equal(probe.devices, visible.front().devices, {}, &CudaDeviceInfo::uuid,
                              &CudaDeviceInfo::uuid);
  });
}

// Who takes which GPU, by UUID: a largest matching of processes and GPUs, by augmenting paths
// (Kuhn, 1955); processes in turn, each the first that is free, so that all come to the same.
class Matching {
 public:
  explicit Matching(const std::vector<CudaProbe>& visible) : visible_(visible) {
    for (std::size_t rank = 0; rank < visible.size(); ++rank) {
      std::set<std::string> asked;
      static_cast<void>(give(rank, asked));
    }
  }
  const CudaDeviceInfo& of(std::size_t rank) const {
    for (const CudaDeviceInfo& gpu : visible_[rank].devices) {
      const auto owner = owners_.find(gpu.uuid);
      if (owner != owners_.end() && owner->second == rank) return gpu;
    }
    return visible_[rank].devices.front();
  }

 private:
  // A GPU to `rank`, if need be one whose owner finds another.
  bool give(std::size_t rank, std::set<std::string>& asked) {
    for (const bool free : {true, false}) {
      for (const CudaDeviceInfo& gpu : visible_[rank].devices) {
        const auto owner = owners_.find(gpu.uuid);
        if (free != (owner == owners_.end())) continue;
        if (!free && (!asked.insert(gpu.uuid).second || !give(owner->second, asked))) continue;
        owners_[gpu.uuid] = rank;
        return true;
      }
    }
    return false;
  }

  const std::vector<CudaProbe>& visible_;
  std::map<std::string, std::size_t> owners_;
};

// The number of `gpu` in `world`, where it is added unless it is there.
int number_in(CudaProbe& world, const CudaDeviceInfo& gpu) {
  if (const CudaDeviceInfo* const known = find(world.devices, gpu.uuid)) return known->ordinal;
  world.devices.push_back(gpu);
  return world.devices.back().ordinal = static_cast<int>(world.devices.size()) - 1;
}

std::string first_unseen(const std::vector<CudaProbe>& visible,
                         const std::vector<std::string>& uuids) {
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    for (std::size_t peer = 0; peer < uuids.size(); ++peer) {
      if (find(visible[rank].devices, uuids[peer]) != nullptr) continue;
      return fmt::format("rank {} does not see rank {}'s GPU {}", rank, peer, uuids[peer]);
    }
  }
  return "";
}

}  // namespace

JoinedGpus assign_gpus(const std::vector<CudaProbe>& visible) {
  JoinedGpus gpus;
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    if (!visible[rank].devices.empty()) continue;
    gpus.world.reason = fmt::format("rank {}: {}", rank, visible[rank].reason);
    return gpus;
  }
  if (all_see_the_same(visible)) {
    gpus.world = visible.front();
    const auto& devices = gpus.world.devices;
    for (std::size_t rank = 0; rank < visible.size(); ++rank) {
      gpus.ordinals.push_back(devices.at(rank % devices.size()).ordinal);
    }
    gpus.numbers = gpus.ordinals;
    return gpus;
  }
  gpus.world.driver_version = visible.front().driver_version;
  gpus.world.runtime_version = visible.front().runtime_version;
  const Matching matching(visible);
  std::vector<std::string> uuids;
  for (std::size_t rank = 0; rank < visible.size(); ++rank) {
    const CudaDeviceInfo& gpu = matching.of(rank);
    gpus.ordinals.push_back(gpu.ordinal);
    gpus.numbers.push_back(number_in(gpus.world, gpu));
    uuids.push_back(gpu.uuid);
  }
  gpus.unseen = first_unseen(visible, uuids);
  return gpus;
}

std::vector<CudaProbe> exchange_gpus(comm::Store& store, int rank, int processes,
                                     const CudaProbe& own, double timeout_s) {
  nlohmann::json list = nlohmann::json::array();
  for (const CudaDeviceInfo& gpu : own.devices) list.push_back(to_json(gpu));
  const nlohmann::json told = {{"reason", own.reason}, {"gpus", list}};
  if (rank < processes) store.set(key_of(rank), told.dump());
  std::vector<CudaProbe> all;
  for (int peer = 0; peer < processes; ++peer) {
    if (peer == rank) {
      all.push_back(own);
      continue;
    }
    const auto theirs = nlohmann::json::parse(store.get(key_of(peer), timeout_s));
    CudaProbe probe;
    probe.reason = theirs.at("reason");
    for (const nlohmann::json& gpu : theirs.at("gpus")) probe.devices.push_back(gpu_from_json(gpu));
    all.push_back(std::move(probe));
  }
  return all;
}

}  // namespace ddpbench::bench
