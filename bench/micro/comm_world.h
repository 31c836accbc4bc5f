// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks for measurements of one collective: the calling thread is rank 0; the others are forked
// processes or threads, which repeat what rank 0 does. All are pinned to cores as devices are.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/runtime/cpu_topology.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

// A rank's registered memory: `count` floats to send from, and as many to receive into.
struct RankMemory {
  float* in = nullptr;
  float* out = nullptr;
  std::size_t count = 0;
};

// Where in the world an element is.
struct Place {
  int rank = 0;
  int size = 1;
  std::size_t count = 0;  // of RankMemory
};

struct CollectiveCase {
  const char* name = "";
  double (*bus_factor)(int size) = nullptr;  // busbw = algbw * factor, as in nccl-tests
  void (*run)(comm::Communicator& c, const RankMemory& memory) = nullptr;
  // The result: how many elements this rank gets, where, and which.
  std::size_t (*results)(const Place& place) = nullptr;
  bool result_in_out = false;
  float (*expected)(const Place& place, std::size_t index) = nullptr;
};

// Element `index` that a rank puts in. Sums over 32 ranks are exact in fp32.
float input_value(int rank, std::size_t index);

enum class RankKind { processes, threads };

class CommWorld {
 public:
  CommWorld(RankKind kind, const CpuPlacement& placement, const CollectiveCase& collective,
            std::size_t count);
  ~CommWorld();
  CommWorld(const CommWorld&) = delete;
  CommWorld& operator=(const CommWorld&) = delete;

  // Runs the collective once on all ranks, from a barrier on; seconds of the slowest rank.
  double run();
  // Runs it once on fresh input; elements that are wrong, over all ranks.
  std::size_t count_wrong();

 private:
  class Rank;
  void start_processes(const CpuPlacement& placement);
  void start_threads(const CpuPlacement& placement);

  const CollectiveCase& collective_;
  const std::size_t count_;
  std::unique_ptr<Rank> own_;
  std::vector<int> processes_;
  std::vector<std::thread> threads_;
};

}  // namespace ddpbench::bench
