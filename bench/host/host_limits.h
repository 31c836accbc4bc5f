// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the system tells of this process and machine: limits, with control groups (of version 1 only
// the CPU's), processes ended for lack of memory, and the counters that
// reports/metrics/conditions.h compares. And where this host is in its network: the addresses at
// which ranks of other hosts reach it, and how its TCP decides how fast it sends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/runtime/cpu_topology.h"
#include "reports/metrics/conditions.h"

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
// each) of their own. Call it before the process starts a thread.
void spare_address_space();

// `root` stands before /proc and /sys in all of these: "" is the system itself, tests have others.

// Reads control groups from this process's group upwards: the tightest limit counts.
HostLimits read_host_limits(const std::string& root = "");

// The processors of this host, with as many cores as the quota lets it use all the time.
CpuTopology read_usable_cpu(const std::string& root = "");

// The most bytes of physical memory that this process has held since it started, or since
// reset_peak_rss(), which gives memory that is free back to the system first.
std::optional<std::uint64_t> peak_rss_bytes();
void reset_peak_rss();

// How many processes the kernel has ended for lack of memory: of this process's own control group,
// else, where that does not say, of this machine.
struct MemoryKills {
  std::optional<std::uint64_t> count;
  bool of_group = false;
};
MemoryKills read_memory_kills(const std::string& root = "");

// A sentence about a rank that ended by a SIGKILL which this program did not send; empty if the
// kernel ended no process for lack of memory between the readings, or if the system does not say.
std::string memory_kill_words(const MemoryKills& before, const MemoryKills& after,
                              const std::string& root = "");

// Reads this machine and this process now, which takes up to a few milliseconds (one file per
// processor): call it between runs.
report::MachineSnapshot take_machine_snapshot();

// The same without the values of getrusage and the clock.
report::MachineSnapshot read_machine_counters(const std::string& root);

// ---- the network ----

// This host's name; "unknown" when the system does not say.
std::string host_name();

// Whether the text is an IPv4 address ("10.0.0.1"). Those of IPv6 are not known here: they count as
// names.
bool is_address(const std::string& text);

// A network interface of this host with its IPv4 address.
struct Interface {
  std::string name, address;
};
// The one with this name or address. Throws ConfigError that names those that there are.
Interface find_interface(const std::string& interface);

// The address of this host from which it reaches `host`, a name or an address. Nothing is sent.
// Throws ConfigError when the host is not known here, CommError when no way leads there.
std::string address_towards(const std::string& host, double timeout_s);

// "bbr": what connections of this network namespace begin with, unless their route names another.
// Empty where the system does not say.
std::string tcp_congestion_control();

}  // namespace ddpbench::bench
