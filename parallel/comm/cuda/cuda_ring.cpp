// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/runtime/error.h"
#include "parallel/comm/cuda_comm.h"

namespace ddpbench::comm {

std::unique_ptr<Communicator> make_cuda_ring(Store&, int, int, Device&, const CudaCommOptions&) {
  throw UnavailableError("the CUDA module has no ring yet");
}

std::vector<std::unique_ptr<Communicator>> make_thread_cuda_ring(const std::vector<Device*>&,
                                                                 const CudaCommOptions&) {
  throw UnavailableError("the CUDA module has no ring yet");
}

}  // namespace ddpbench::comm
