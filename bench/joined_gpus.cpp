// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

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

// What a process that sees `gpus` takes when others have `taken` theirs.
const CudaDeviceInfo& choose(const std::vector<CudaDeviceInfo>& gpus,
                             const std::vector<CudaDeviceInfo>& taken) {
  for (const CudaDeviceInfo& gpu : gpus) {
    if (find(taken, gpu.uuid) == nullptr) return gpu;
  }
  return gpus.front();
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
  if (all_see_the_same(visible)) {
    gpus.world = visible.front();
    const auto& devices = gpus.world.devices;
    for (std::size_t rank = 0; rank < visible.size(); ++rank) {
      gpus.ordinals.push_back(devices.at(rank % devices.size()).ordinal);
    }
    return gpus;
  }
  gpus.world.driver_version = visible.front().driver_version;
  gpus.world.runtime_version = visible.front().runtime_version;
  std::vector<std::string> uuids;
  for (const CudaProbe& own : visible) {
    const CudaDeviceInfo& gpu = choose(own.devices, gpus.world.devices);
    gpus.ordinals.push_back(gpu.ordinal);
    uuids.push_back(gpu.uuid);
    if (find(gpus.world.devices, gpu.uuid) != nullptr) continue;
    gpus.world.devices.push_back(gpu);
    gpus.world.devices.back().ordinal = static_cast<int>(gpus.world.devices.size()) - 1;
  }
  gpus.unseen = first_unseen(visible, uuids);
  return gpus;
}

std::vector<CudaProbe> exchange_gpus(comm::Store& store, int rank, int processes,
                                     const CudaProbe& own, double timeout_s) {
  nlohmann::json list = nlohmann::json::array();
  for (const CudaDeviceInfo& gpu : own.devices) list.push_back(to_json(gpu));
  if (rank < processes) store.set(key_of(rank), list.dump());
  std::vector<CudaProbe> all;
  for (int peer = 0; peer < processes; ++peer) {
    if (peer == rank) {
      all.push_back(own);
      continue;
    }
    CudaProbe probe;
    for (const nlohmann::json& gpu : nlohmann::json::parse(store.get(key_of(peer), timeout_s))) {
      probe.devices.push_back(gpu_from_json(gpu));
    }
    all.push_back(std::move(probe));
  }
  return all;
}

}  // namespace ddpbench::bench
