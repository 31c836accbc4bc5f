// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which memory each device of a planned run counts against, and how full that is.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/rank/run_memory.h"

namespace ddpbench::bench {

struct FitMemory {
  std::size_t bytes = 0;
  bool is_shared = false;  // by all devices of a run; else each has so much
  std::string words;       // where the number is from
};

struct FitMemories {
  FitMemory devices;           // the workers', and the servers' that are on devices of their kind
  std::size_t host_bytes = 0;  // for all servers on CPU devices beside GPUs
};

// Devices of a run that count together.
struct Fullness {
  double share = 0;  // of the memory
  std::string role;
  std::size_t bytes = 0, limit_bytes = 0;
  CategoryBytes by_category{};
};

// The memory of a run, or of its reference, in the order of `planned`. Each role comes once.
std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories);

// The fullest. REQUIRES: `all` is not empty.
const Fullness& fullest(const std::vector<Fullness>& all);

// Reads "16GiB", "80GB", "512MiB" or a number of bytes; K, M, G and T alone are powers of 1024.
// Throws ConfigError for other text, and for no byte at all.
std::uint64_t memory_size(const std::string& text);

// The memory of the devices that `planning` stands for: --memory-per-device, or what they have free
// now. `data_set`: bytes of the host's memory that the data set takes. Throws UnavailableError when
// a device does not tell.
FitMemories find_memories(const RunOptions& options, const PlanningDevices& planning,
                          std::size_t data_set);

}  // namespace ddpbench::bench
