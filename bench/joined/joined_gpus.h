// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which GPU each process of a joined world takes. Launchers show a process all GPUs of its host, or
// one, or some (CUDA_VISIBLE_DEVICES, srun --gpus-per-task); CUDA's numbers then mean something
// else in each process, so GPUs are told apart by their UUIDs.
#pragma once

#include <string>
#include <vector>

#include "kernels/runtime/cuda_device.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

struct JoinedGpus {
  // [process]: of the GPU that it takes, in that process; and in `world`.
  std::vector<int> ordinals, numbers;
  // The GPUs of the world, each once, in the order of the processes that take them; numbered anew.
  // Where all processes see the same, what each of them sees. Without GPUs, and with the reason,
  // when a process sees none; nobody takes any then.
  CudaProbe world;
  // Why a process cannot map the memory of all others: "rank 0 does not see rank 1's GPU GPU-...";
  // empty: all see the GPUs of all.
  std::string unseen;
};

// Pure. `visible`: [process], the GPUs that each sees. Where they see different ones, as many
// processes as possible get a GPU of their own, and the others share the first that they see.
JoinedGpus assign_gpus(const std::vector<CudaProbe>& visible);

// Collective over the first `processes` ranks, which share `store`: each tells what it sees;
// further ranks only learn it. Throws CommError when one does not within `timeout_s`.
std::vector<CudaProbe> exchange_gpus(comm::Store& store, int rank, int processes,
                                     const CudaProbe& own, double timeout_s);

}  // namespace ddpbench::bench
