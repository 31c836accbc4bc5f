// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/host_limits.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "bench/host/environment_capture.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> resource_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

template <typename T>
std::optional<T> first_number(const fs::path& path) {
  std::ifstream file(path);
  T value{};
  if (!(file >> value)) return std::nullopt;  // absent, or "max"
  return value;
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

// The path of this process's group below the root, from the line "0::/path" of /proc/self/cgroup.
fs::path own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(4);
  return {};
}

// Reads /proc/self/statm: its first number is the size of the address space in pages.
std::optional<std::uint64_t> address_space_left() {
  const auto limit = resource_limit(RLIMIT_AS);
  const auto used_pages = first_number<std::uint64_t>("/proc/self/statm");
  if (!limit || !used_pages) return std::nullopt;
  const std::uint64_t used = *used_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return *limit - std::min(*limit, used);
}

}  // namespace

MemoryLimit memory_limit(const HostLimits& limits) {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const std::string host = host_name();
  MemoryLimit least{.bytes = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)),
                    .pool = host};
  if (limits.memory_bytes && *limits.memory_bytes < least.bytes) {
    // A control group's path is relative to its namespace.
    std::error_code none;
    const fs::path space = fs::read_symlink("/proc/self/ns/cgroup", none);
    least = {*limits.memory_bytes,
             fmt::format("{} {} {}", host, space.string(), limits.memory_group)};
  }
  const auto own = address_space_left();
  if (own && *own < least.bytes) {
    least = {*own, fmt::format("{} process {}", host, ::getpid())};
  }
  return least;
}

HostLimits read_host_limits(const std::string& group_root) {
  HostLimits limits{.open_files = resource_limit(RLIMIT_NOFILE),
                    .locked_memory_bytes = resource_limit(RLIMIT_MEMLOCK),
                    .processes = resource_limit(RLIMIT_NPROC),
                    .threads = first_number<std::uint64_t>("/proc/sys/kernel/threads-max")};
  for (fs::path group = own_group();; group = group.parent_path()) {
    tighten(limits.cpu_quota, cpu_quota(fs::path(group_root) / group));
    const auto memory = first_number<std::uint64_t>(fs::path(group_root) / group / "memory.max");
    // Of equal limits, the outer one counts, because more processes share it.
    if (memory && (!limits.memory_bytes || *memory <= *limits.memory_bytes)) {
      limits.memory_bytes = memory;
      limits.memory_group = (fs::path("/") / group).string();
    }
    if (group.empty()) return limits;
  }
}

}  // namespace ddpbench::bench
