// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/fit_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "bench/host/host_limits.h"

namespace ddpbench::bench {
namespace {

Fullness fullness(std::string role, std::size_t bytes, std::size_t limit,
                  const CategoryBytes& by_category) {
  return {static_cast<double>(bytes) / static_cast<double>(limit), std::move(role), bytes, limit,
          by_category};
}

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
  return fullness(std::move(role), bytes, limit, by_category);
}

// What is free of the host's memory beside the data set.
std::size_t beside(std::size_t data_set, std::size_t free) {
  return std::max<std::size_t>(1, free - std::min(free, data_set));
}

}  // namespace

std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories) {
  const FitMemory& memory = memories.devices;
  std::vector<PlannedDevice> on_devices, on_host;
  for (const PlannedDevice& device : planned) {
    (device.on_host ? on_host : on_devices).push_back(device);
  }
  std::vector<Fullness> all;
  if (memory.is_shared) {
    const bool alone = on_devices.size() == 1 && on_devices[0].count == 1;
    all.push_back(
        together(alone ? "the device" : "all devices together", on_devices, memory.bytes));
  } else {
    for (const PlannedDevice& device : on_devices) {
      all.push_back(fullness(device.role, device.bytes, memory.bytes, device.by_category));
    }
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
    memories.devices = {memory_size(options.memory_per_device), false,
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
    memories.devices = {*free, false, fmt::format("free on {}", device.model())};
  } else {
    memories.devices = {beside(data_set, *free), true,
                        "free on this host beside the data set, shared by all devices of a run"};
  }
  return memories;
}

}  // namespace ddpbench::bench
