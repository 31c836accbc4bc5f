// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Decides which GPU each process of a joined world takes: number local rank, modulo the GPUs that
// it sees, as PyTorch's programs do under torchrun. External launchers show a process all GPUs of
// its host, one, or some (CUDA_VISIBLE_DEVICES, srun --gpus-per-task). CUDA's numbers then differ
// between processes; UUIDs tell which GPUs are the same.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/joined/joined_hosts.h"
#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/store/store.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// What a process tells the others about its GPUs.
struct VisibleGpus {
  int local_rank = 0;
  CudaProbe probe;  // the GPUs that it sees
};

struct JoinedGpus {
  // [process]: the number of the GPU that it takes, first in that process, second in `world`.
  std::vector<int> ordinals, numbers;
  // The GPUs that the processes take, each once, numbered anew in the order of the processes. They
  // are fewer than the processes when some share a GPU. When a process sees no GPU, no process
  // takes one: the probe then has no GPUs and the reason.
  CudaProbe world;
};

// Gives each process the GPU that it takes, in `gpus`, [process] the world's numbers of a plan that
// dealt them out in turn. Does nothing where the plan is on no GPU.
void give_own_gpus(const JoinedGpus& own, std::vector<int>& gpus);

// As text for another process, and back. Throws nlohmann's errors for anything else.
nlohmann::json to_json(const VisibleGpus& visible);
VisibleGpus visible_gpus_from_json(const nlohmann::json& json);

// Pure. `visible`: [process].
JoinedGpus assign_gpus(const std::vector<VisibleGpus>& visible);

// Collective over the first `processes` ranks, which share `store`: each publishes what it sees.
// Other ranks only read it. Throws CommError when a rank has not published it within `timeout_s`.
std::vector<VisibleGpus> exchange_gpus(comm::Store& store, int rank, int processes,
                                       const VisibleGpus& own, double timeout_s);

// The cores (OS processors) of this rank's device: each rank of a joined world places itself. Where
// the launcher has bound it to some (mpirun does), these are kept; otherwise the ranks of a host
// divide it as a supervisor would. `devices`: those of the world that need cores. `hosts` has all
// ranks, or none where the rank is alone. nullopt: the plan of a supervisor holds.
std::optional<std::vector<int>> own_cores(int devices, int threads_per_device,
                                          const launch::RankEnvironment& environment,
                                          const JoinedHosts& hosts, const CpuTopology& topology);

struct PlacedRank {
  int host = 0;            // its number
  std::vector<int> cores;  // OS processors of its device's threads
};

// Whether a host has more threads of ranks than cores that these may use between them.
bool share_cores(const std::vector<PlacedRank>& ranks);

}  // namespace ddpbench::bench
