// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The control groups of this process and those that limit its memory, of version 1 or 2, and
// whether the kernel has ended processes for lack of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddpbench::bench {

// `root` stands before /proc and /sys in all of these: "" is the system itself, tests have others.

// A line "<id>:<controllers>:<path>" of /proc/self/cgroup.
struct OwnGroup {
  std::string controllers;     // "cpu,memory"; empty: the group of version 2, which has them all
  std::filesystem::path path;  // below the root of its hierarchy; empty: this is the root
};
std::vector<OwnGroup> own_groups(const std::string& root);

struct MemoryGroup {
  std::string name;                 // below its hierarchy, "/jobs/7"; the root's is "/"
  std::filesystem::path directory;  // of its files
  bool is_version_2 = true;

  std::optional<std::uint64_t> limit_bytes() const;  // not set: no limit, or not told
  // What its processes use, without pages of files that the kernel drops where memory is short.
  std::optional<std::uint64_t> used_bytes() const;
  std::optional<std::uint64_t> kills() const;  // processes of it that the kernel has ended so far
};

// From this process's own group up to the root of the hierarchy. Groups that are not visible from
// here, as those above a container, are left out.
std::vector<MemoryGroup> memory_groups(const std::string& root);

// Processes that the kernel has ended for lack of memory.
struct MemoryKills {
  std::optional<std::uint64_t> of_group;    // of this process's own control group
  std::optional<std::uint64_t> of_machine;  // also of others; only since Linux 4.13
};
MemoryKills read_memory_kills(const std::string& root = "");

// Returns a sentence about a rank that ended by a SIGKILL which this program did not send. It says
// what the kernel did between the two readings, and what to change. It is empty if the kernel ended
// no process for lack of memory, or if the system does not say.
std::string memory_kill_words(const MemoryKills& before, const MemoryKills& after,
                              const std::string& root = "");

}  // namespace ddpbench::bench
