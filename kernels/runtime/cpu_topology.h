// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The processors of this host (through hwloc) and the cores that each CPU device gets.
#pragma once

#include <sched.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddpbench {

struct CpuTopology {
  std::string model;         // "AMD EPYC ..."; "unknown" when the system does not say
  std::vector<int> cores;    // one OS processor number per physical core that this process
                             // may use (its affinity mask), in locality order
  int processors = 0;        // hardware threads this process may use
  std::size_t l2_bytes = 0;  // per core; 0 when unknown
  std::size_t l3_bytes = 0;  // shared; 0 when unknown
  std::size_t memory_bytes = 0;
  std::vector<std::string> features;  // of avx2, fma, avx512f, avx512bw, avx512_bf16, amx_bf16, ...
};

// Reads the topology of this host. Thread-safe; every call reads anew.
CpuTopology read_cpu_topology();

// What the kernel of this host manages, whatever this process may use of it.
std::size_t physical_memory_bytes();

struct CpuPlacement {
  std::vector<std::vector<int>> device_cores;  // [device][thread], OS processor numbers
  bool oversubscribed = false;                 // more compute threads than cores
};

// Gives `devices` groups of `threads` cores each. Groups are contiguous in locality order. With
// more threads than cores the groups wrap around, round robin, and oversubscribed is set.
CpuPlacement place_cpu_devices(const CpuTopology& topology, int devices, int threads);

// Lets the calling thread run on these OS processors only. Returns 0, or errno of the failure.
int pin_calling_thread(std::span<const int> processors) noexcept;

// While it lives, the calling thread, and threads that it starts, may run wherever the process may
// that started this one, which is not pinned.
class Unpinned {
 public:
  Unpinned();
  ~Unpinned();
  Unpinned(const Unpinned&) = delete;
  Unpinned& operator=(const Unpinned&) = delete;

 private:
  cpu_set_t before_;
};

// "AMD EPYC 9654 96-Core Processor"; "unknown" when the system does not say.
std::string cpu_model_name();

}  // namespace ddpbench
