// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The limits that the system sets for this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddpbench::bench {

// A missing value is unlimited, or unknown where the system does not say.
struct HostLimits {
  std::optional<std::uint64_t> open_files = {};  // descriptors per process
  std::optional<std::uint64_t> locked_memory_bytes = {};
  std::optional<std::uint64_t> processes = {};     // and threads, per user
  std::optional<std::uint64_t> threads = {};       // in the whole system
  std::optional<double> cpu_quota = {};            // CPUs, for the control group
  std::optional<std::uint64_t> memory_bytes = {};  // for the control group
  std::string memory_group = {};                   // the control group that sets memory_bytes
  // The least that one of its control groups may use beyond what it uses already.
  std::optional<std::uint64_t> memory_left_bytes = {};
  std::optional<std::uint64_t> host_available_bytes = {};  // MemAvailable of /proc/meminfo
};

// The most memory that this process can use now: the least of what is left to its control groups,
// of its address space (RLIMIT_AS), and of the host's memory. What others use, and what the
// supervisor holds (the data set), is left out.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  // Processes that share these bytes have equal pools.
  std::string pool;
  bool is_of_process = false;  // the address space is the least, which this process has alone
};
MemoryLimit memory_limit(const HostLimits& limits);

// Where the address space is limited, keeps threads from mapping arenas of the allocator (64 MiB
// each) of their own, which nothing plans. To be called before the process starts a thread.
void spare_address_space();

// Reads control groups from this process's group upwards: the tightest limit counts. Memory's are
// of version 1 or 2, the CPU's of version 2. Tests have their own /proc and /sys below `root`.
HostLimits read_host_limits(const std::string& root = "");

}  // namespace ddpbench::bench
