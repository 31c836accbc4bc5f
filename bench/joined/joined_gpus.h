// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which GPU each process of a joined world takes: the one of its local rank, modulo the GPUs that
// it sees, as PyTorch's programs do under torchrun. Launchers show a process all GPUs of its host,
// or one, or some (CUDA_VISIBLE_DEVICES, srun --gpus-per-task). CUDA's numbers then mean something
// else in each process; UUIDs tell which GPUs are one and the same.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

// What a process tells the others of its GPUs.
struct VisibleGpus {
  int local_rank = 0;
  CudaProbe probe;  // the GPUs that it sees
};

struct JoinedGpus {
  // [process]: the number of the GPU that it takes, in that process; and in `world`.
  std::vector<int> ordinals, numbers;
  // The GPUs that the processes take, each once, in the order of the processes and numbered anew:
  // fewer than processes when some share a GPU. Without GPUs, and with the reason, when a process
  // sees none; no process takes one then.
  CudaProbe world;
  // Why a process cannot map the memory of all others: "rank 0 does not see rank 1's GPU GPU-...";
  // empty: all see the GPUs of all.
  std::string unseen;
};

// Pure. `visible`: [process].
JoinedGpus assign_gpus(const std::vector<VisibleGpus>& visible);

// Collective over the first `processes` ranks, which share `store`: each tells what it sees;
// further ranks only learn it. Throws CommError when one does not within `timeout_s`.
std::vector<VisibleGpus> exchange_gpus(comm::Store& store, int rank, int processes,
                                       const VisibleGpus& own, double timeout_s);

}  // namespace ddpbench::bench
