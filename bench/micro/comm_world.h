// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks for measurements of one collective. The calling thread is rank 0; the others are forked
// processes or threads that repeat what rank 0 does. All are pinned to cores as devices are.
#pragma once

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "bench/comm/collective_case.h"
#include "kernels/runtime/cpu_topology.h"
#include "parallel/comm/communicator.h"

namespace ddpbench::bench {

enum class RankKind { processes, threads };

class CommWorld {
 public:
  CommWorld(RankKind kind, const CpuPlacement& placement, const CollectiveCase& collective,
            std::size_t count);
  ~CommWorld();
  CommWorld(const CommWorld&) = delete;
  CommWorld& operator=(const CommWorld&) = delete;

  // Runs the collective once on all ranks after a barrier; returns the slowest rank's seconds.
  double run();
  // Runs it once on fresh input; returns the number of wrong elements over all ranks.
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
