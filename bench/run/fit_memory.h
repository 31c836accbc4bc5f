// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which memory each device of a planned run counts against, and how full that is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/rank/run_memory.h"

namespace ddpbench::bench {

// Which devices of a run take theirs of one memory.
enum class SharedBy : std::uint8_t { none, gpu, process, all };

struct FitMemory {
  std::size_t bytes = 0;
  SharedBy shared_by = SharedBy::none;
  std::string words;  // where the number is from
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

// [device] The number of the memory that it takes its own of, among those of the job's devices.
std::vector<int> memory_pools(const TrainingJob& job, SharedBy shared_by);

// The memory of a run, or of its reference, in the order of `pools`, which are those of its
// memory_pools(). Each role comes once, and is the fullest that has it.
std::vector<Fullness> fullness_of(const std::vector<PlannedDevice>& planned,
                                  const FitMemories& memories, const std::vector<int>& pools);

// The fullest. REQUIRES: `all` is not empty.
const Fullness& fullest(const std::vector<Fullness>& all);

// The category that has most of `bytes`.
std::string_view largest_category(const CategoryBytes& bytes);

// Reads "16GiB", "80GB", "512MiB" or a number of bytes; K, M, G and T alone are powers of 1024.
// Throws ConfigError for other text, and for no byte at all.
std::uint64_t memory_size(const std::string& text);

// The memory of the devices that `planning` stands for: --memory-per-device, or what they have free
// now. `data_set`: bytes of the host's memory that the data set takes. Throws UnavailableError when
// a device does not tell.
FitMemories find_memories(const RunOptions& options, const PlanningDevices& planning,
                          std::size_t data_set);

// What a rank saw free of a memory that its plan does not fit into.
struct FoundFree {
  std::size_t bytes = 0;
  bool is_of_host = false;  // of servers on CPU devices beside GPUs
};
// Puts it in place of what `memories` have, for runs of `job` here and now.
void take_found(const FoundFree& found, const TrainingJob& job, FitMemories& memories);

}  // namespace ddpbench::bench
