// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "bench/host/host_limits.h"

namespace ddpbench::bench {
namespace {

// Devices that share `limit` bytes.
Fullness together(std::string role, const std::vector<PlannedDevice>& devices, std::size_t limit) {
  std::size_t bytes = 0;
  CategoryBytes by_category{};
  for (const PlannedDevice& device : devices) {
    const auto count = static_cast<std::size_t>(device.count);
    bytes += count * device.bytes;
    for (std::size_t c = 0; c < by_category.size(); ++c) {
      by_category[c] += count * device.by_category[c];
    }
  }
  return {static_cast<double>(bytes) / static_cast<double>(limit), std::move(role), bytes, limit,
          by_category};
}

// How many of the devices are in which memory.
std::map<int, int> counts_by_pool(const PlannedDevice& device, const std::vector<int>& pools) {
  std::map<int, int> counts;
  for (int i = device.first; i < device.first + device.count; ++i) {
    ++counts[pools.at(static_cast<std::size_t>(i))];
  }
  return counts;
}

// `devices` share a memory, of `device_count` in the run.
std::string role_of_pool(const std::vector<PlannedDevice>& devices, int device_count) {
  int count = 0;
  for (const PlannedDevice& device : devices) count += device.count;
  if (count == 1) return devices[0].role;
  return count == device_count ? "all devices together" : "devices that share a memory";
}

void add_fullest(Fullness next, std::vector<Fullness>& all) {
  const auto same = std::ranges::find(all, next.role, &Fullness::role);
  if (same == all.end()) {
    all.push_back(std::move(next));
  } else if (next.share > same->share) {
    *same = std::move(next);
  }
}

// What is free of the host's memory beside the data set.
std::size_t beside(std::size_t data_set, std::size_t free) {
  return std::max<std::size_t>(1, free - std::min(free, data_set));
}

}  // namespace

std::vector<int> memory_pools(const TrainingJob& job, SharedBy shared_by) {
  std::vector<int> pools = processes_of_devices(job);
  if (shared_by == SharedBy::all) std::ranges::fill(pools, 0);
  if (shared_by == SharedBy::none) std::iota(pools.begin(), pools.end(), 0);
  if (shared_by == SharedBy::gpu) {
    // A reference has one device, and the GPUs of its run. CPU servers have none.
    std::copy_n(job.gpus.begin(), std::min(job.gpus.size(), pools.size()), pools.begin());
  }
  return pools;
}

std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories, const std::vector<int>& pools) {
  std::map<int, std::vector<PlannedDevice>> by_pool;
  std::vector<PlannedDevice> on_host;
  int device_count = 0;
  for (const PlannedDevice& device : planned) {
    if (device.on_host) {
      on_host.push_back(device);
      continue;
    }
    device_count += device.count;
    for (const auto& [pool, count] : counts_by_pool(device, pools)) {
      by_pool[pool].push_back(device);
      by_pool[pool].back().count = count;
    }
  }
  std::vector<Fullness> all;
  for (const auto& [pool, devices] : by_pool) {
    add_fullest(together(role_of_pool(devices, device_count), devices, memories.devices.bytes),
                all);
  }
  if (!on_host.empty()) {
    all.push_back(together("the servers on the host", on_host, memories.host_bytes));
  }
  return all;
}

const Fullness& fullest(const std::vector<Fullness>& all) {
  ensure(!all.empty(), "no memory is planned");
  return *std::ranges::max_element(all, {}, &Fullness::share);
}

std::string_view largest_category(const CategoryBytes& bytes) {
  const auto most = std::ranges::max_element(bytes) - bytes.begin();
  return to_string(static_cast<MemoryCategory>(most));
}

std::uint64_t memory_size(const std::string& text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr std::array<Unit, 13> kUnits = {{{"", 1},
                                                   {"K", 0x1p10},
                                                   {"KiB", 0x1p10},
                                                   {"KB", 1e3},
                                                   {"M", 0x1p20},
                                                   {"MiB", 0x1p20},
                                                   {"MB", 1e6},
                                                   {"G", 0x1p30},
                                                   {"GiB", 0x1p30},
                                                   {"GB", 1e9},
                                                   {"T", 0x1p40},
                                                   {"TiB", 0x1p40},
                                                   {"TB", 1e12}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const auto found = std::ranges::find(kUnits, unit, &Unit::name);
  constexpr double kMost = 0x1p60;
  if (error == std::errc{} && found != kUnits.end()) {
    const double bytes = number * found->bytes;
    if (bytes >= 1 && bytes <= kMost) return static_cast<std::uint64_t>(bytes);
  }
  throw ConfigError(
      fmt::format("--memory-per-device={}: expected a size such as 16GiB, 80GB or 512MiB", text));
}

FitMemories find_memories(const RunOptions& options, const PlanningDevices& planning,
                          std::size_t data_set) {
  FitMemories memories;
  if (planning.servers.device) {
    memories.host_bytes = beside(data_set, memory_limit(read_host_limits()).bytes);
  }
  if (!options.memory_per_device.empty()) {
    memories.devices = {memory_size(options.memory_per_device), SharedBy::none,
                        fmt::format("--memory-per-device={}", options.memory_per_device)};
    return memories;
  }
  const Device& device = *planning.workers.device;
  const std::optional<std::size_t> free = device.free_bytes();
  if (!free || *free == 0) {
    throw UnavailableError(fmt::format(
        "{} does not tell how much memory it has; give --memory-per-device=16GiB", device.name()));
  }
  if (device.kind() == DeviceKind::cuda) {
    memories.devices = {*free, SharedBy::none, fmt::format("free on {}", device.model())};
  } else if (memory_limit(read_host_limits()).is_of_process) {
    memories.devices = {beside(data_set, *free), SharedBy::process,
                        "free of a process's address space (ulimit -v) beside the data set"};
  } else {
    memories.devices = {beside(data_set, *free), SharedBy::all,
                        "free on this host beside the data set, shared by all devices of a run"};
  }
  return memories;
}

void take_found(const FoundFree& found, const TrainingJob& job, FitMemories& memories) {
  // A device that has no byte free has no share to be measured in.
  const std::size_t bytes = std::max<std::size_t>(1, found.bytes);
  if (found.is_of_host) {
    memories.host_bytes = bytes;
    return;
  }
  memories.devices.bytes = bytes;
  if (shares_gpus(job)) memories.devices.shared_by = SharedBy::gpu;
}

}  // namespace ddpbench::bench
