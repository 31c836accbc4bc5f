// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the system lets this process have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddpbench::bench {

// Missing values are unlimited, or unknown where the system does not say.
struct HostLimits {
  std::optional<std::uint64_t> open_files = {};  // descriptors of a process
  std::optional<std::uint64_t> locked_memory_bytes = {};
  std::optional<std::uint64_t> processes = {};     // and threads, of this user
  std::optional<std::uint64_t> threads = {};       // of the whole system
  std::optional<double> cpu_quota = {};            // CPUs, of the control group
  std::optional<std::uint64_t> memory_bytes = {};  // of the control group
  std::string memory_group = {};                   // the control group that has this limit
};

// What the memory of this process can come to at most: the tightest of its control group's limit,
// what is left of its address space (RLIMIT_AS), and the host's memory.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  // Equal for processes that have these bytes together.
  std::string pool;
};
MemoryLimit memory_limit(const HostLimits& limits);

// Control groups version 2 are read below `group_root`, from this process's group upwards: the
// tightest limit counts.
HostLimits read_host_limits(const std::string& group_root = "/sys/fs/cgroup");

}  // namespace ddpbench::bench
