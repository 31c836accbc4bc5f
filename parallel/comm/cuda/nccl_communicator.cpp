// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/error.h"
#include "parallel/comm/cuda_comm.h"

namespace ddpbench::comm {

std::unique_ptr<Communicator> make_nccl(Store&, int, int, Device&, const CudaCommOptions&) {
  throw UnavailableError("the CUDA module has no NCCL yet");
}

std::vector<std::unique_ptr<Communicator>> make_thread_nccl(const std::vector<Device*>&,
                                                            const CudaCommOptions&) {
  throw UnavailableError("the CUDA module has no NCCL yet");
}

std::map<std::string, std::string> cuda_comm_versions() { return {}; }

}  // namespace ddpbench::comm
