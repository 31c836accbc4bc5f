// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks that share GPU 0, as threads or as forked processes. A process that forks them must not
// have called CUDA before: CUDA does not survive a fork.
#pragma once

#include <functional>
#include <string>

#include "kernels/runtime/device.h"
#include "parallel/comm/comm_module.h"
#include "tests/comm/rank_runner.h"

namespace ddpbench::comm::testing {

// Why there is no GPU; empty when there is one. A process of its own finds out.
std::string why_no_gpu();

using CudaRankFunction = std::function<void(Communicator&, Device&)>;

// staged: the host's shm backend, through host memory.
enum class CudaBackend { nccl, staged };

// Staged; each call blocks its thread.
Outcome run_cuda_threads(int size, const CudaRankFunction& function);
// NCCL takes several ranks on one GPU for ranks on several machines.
Outcome run_cuda_processes(CudaBackend backend, int size, const CudaRankFunction& function,
                           double timeout_s = 60);

}  // namespace ddpbench::comm::testing
