// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/memory_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/file.h"
#include "bench/host/system_files.h"

namespace ddpbench::bench {
namespace {

namespace fs = std::filesystem;
using Number = std::optional<std::uint64_t>;

// Version 1 writes the highest multiple of a page for "no limit".
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62;

// Where this process's own group is. A memory controller of version 1 counts before version 2,
// which has none then.
struct OwnMemoryGroup {
  fs::path hierarchy, path;
  bool is_version_2 = true;
};
OwnMemoryGroup own_memory_group(const std::string& root) {
  OwnMemoryGroup own{.hierarchy = root + "/sys/fs/cgroup", .path = {}};
  for (const OwnGroup& group : own_groups(root)) {
    if (("," + group.controllers + ",").find(",memory,") != std::string::npos) {
      return {root + "/sys/fs/cgroup/memory", group.path, false};
    }
    if (group.controllers.empty()) own.path = group.path;
  }
  return own;
}

bool has_grown(const Number& before, const Number& after) {
  return before && after && *after > *before;
}

}  // namespace

std::vector<OwnGroup> own_groups(const std::string& root) {
  std::vector<OwnGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    groups.push_back({line.substr(first + 1, second - first - 1),
                      fs::path(line.substr(second + 1)).relative_path()});
  }
  return groups;
}

Number MemoryGroup::limit_bytes() const {
  const Number limit =
      first_number(directory / (is_version_2 ? "memory.max" : "memory.limit_in_bytes"));
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

Number MemoryGroup::used_bytes() const {
  const Number used =
      first_number(directory / (is_version_2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!used) return std::nullopt;
  const Number cached = number_after(is_version_2 ? "inactive_file" : "total_inactive_file",
                                     directory / "memory.stat");
  return *used - std::min(*used, cached.value_or(0));
}

Number MemoryGroup::kills() const {
  return number_after("oom_kill",
                      directory / (is_version_2 ? "memory.events" : "memory.oom_control"));
}

std::vector<MemoryGroup> memory_groups(const std::string& root) {
  const OwnMemoryGroup own = own_memory_group(root);
  std::vector<MemoryGroup> groups;
  for (fs::path path = own.path;; path = path.parent_path()) {
    const fs::path directory = own.hierarchy / path;
    if (is_folder(directory)) {
      groups.push_back({("/" / path).string(), directory, own.is_version_2});
    }
    if (path.empty()) return groups;
  }
}

MemoryKills read_memory_kills(const std::string& root) {
  const std::vector<MemoryGroup> groups = memory_groups(root);
  return {.of_group = groups.empty() ? std::nullopt : groups.front().kills(),
          .of_machine = number_after("oom_kill", root + "/proc/vmstat")};
}

std::string memory_kill_words(const MemoryKills& before, const MemoryKills& after,
                              const std::string& root) {
  constexpr const char* kAdvice =
      "use a smaller batch (--batch-size), fewer devices, or give it more memory";
  if (has_grown(before.of_group, after.of_group)) {
    for (const MemoryGroup& group : memory_groups(root)) {
      if (const Number limit = group.limit_bytes()) {
        return fmt::format(
            "the kernel ended it because memory ran out: the control group {} may use {} bytes; {}",
            group.name, *limit, kAdvice);
      }
    }
    return fmt::format("the kernel ended it because memory ran out; {}", kAdvice);
  }
  // The group may not tell, and the machine's count may be of others.
  if (!before.of_group && has_grown(before.of_machine, after.of_machine)) {
    return fmt::format(
        "the kernel ended a process of this machine meanwhile because memory ran out, probably "
        "this one; {}",
        kAdvice);
  }
  return "";
}

}  // namespace ddpbench::bench
