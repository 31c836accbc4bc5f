// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_limits.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench/host/environment_capture.h"
#include "bench/host/memory_groups.h"
#include "bench/host/system_files.h"
#include "kernels/runtime/cpu_topology.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> resource_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Reads cpu.max: "<quota> <period>" in microseconds, or "max <period>".
std::optional<double> cpu_quota(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

template <typename T>
void tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other && (!limit || *other < *limit)) limit = other;
}

// The path of this process's group of version 2 below the root.
fs::path own_group(const std::string& root) {
  for (const OwnGroup& group : own_groups(root)) {
    if (group.controllers.empty()) return group.path;
  }
  return {};
}

// Threads that a process starts after its memory was checked map stacks of 8 MiB. They fill little
// of them, so stacks count against an address space alone.
constexpr std::uint64_t kThreadSpaceBytes = std::uint64_t{96} << 20;

// Reads /proc/self/statm: its first number is the size of the address space in pages.
std::optional<std::uint64_t> address_space_left() {
  const auto limit = resource_limit(RLIMIT_AS);
  const auto used_pages = first_number("/proc/self/statm");
  if (!limit || !used_pages) return std::nullopt;
  const std::uint64_t used = *used_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return *limit - std::min(*limit, used + kThreadSpaceBytes);
}

void read_memory_limits(const std::string& root, HostLimits& limits) {
  for (const MemoryGroup& group : memory_groups(root)) {
    const auto limit = group.limit_bytes();
    if (!limit) continue;
    // The outer one of equal limits counts, because more processes share it.
    if (!limits.memory_bytes || *limit <= *limits.memory_bytes) {
      limits.memory_bytes = limit;
      limits.memory_group = group.name;
    }
    const std::uint64_t used = group.used_bytes().value_or(0);
    tighten(limits.memory_left_bytes, std::optional(*limit - std::min(*limit, used)));
  }
  if (const auto kib = number_after("MemAvailable:", root + "/proc/meminfo")) {
    limits.host_available_bytes = *kib << 10;
  }
}

}  // namespace

MemoryLimit memory_limit(const HostLimits& limits) {
  const std::string host = host_name();
  const std::uint64_t total = physical_memory_bytes();
  MemoryLimit least{.bytes = std::min(total, limits.host_available_bytes.value_or(total)),
                    .pool = host};
  // The pool follows from the limits alone. What is left changes while ranks start, and ranks that
  // share memory must agree that they do.
  if (limits.memory_bytes && *limits.memory_bytes < total) {
    // A control group's path is relative to its namespace.
    std::error_code none;
    const fs::path space = fs::read_symlink("/proc/self/ns/cgroup", none);
    least.bytes = std::min(least.bytes, limits.memory_left_bytes.value_or(*limits.memory_bytes));
    least.pool = fmt::format("{} {} {}", host, space.string(), limits.memory_group);
  }
  const auto own = address_space_left();
  if (own && *own < least.bytes) {
    least = {*own, fmt::format("{} process {}", host, ::getpid()), true};
  }
  return least;
}

void spare_address_space() {
  if (resource_limit(RLIMIT_AS)) ::mallopt(M_ARENA_MAX, 1);
}

HostLimits read_host_limits(const std::string& root) {
  HostLimits limits{.open_files = resource_limit(RLIMIT_NOFILE),
                    .locked_memory_bytes = resource_limit(RLIMIT_MEMLOCK),
                    .processes = resource_limit(RLIMIT_NPROC),
                    .threads = first_number("/proc/sys/kernel/threads-max")};
  read_memory_limits(root, limits);
  for (fs::path group = own_group(root);; group = group.parent_path()) {
    tighten(limits.cpu_quota, cpu_quota(fs::path(root + "/sys/fs/cgroup") / group));
    if (group.empty()) return limits;
  }
}

}  // namespace ddpbench::bench
