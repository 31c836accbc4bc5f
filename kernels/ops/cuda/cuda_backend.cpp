// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda_backend.h"

#include "kernels/runtime/error.h"

namespace ddpbench::ops {

std::unique_ptr<OpBackend> make_cuda_backend(Device&, const CudaBackendOptions&) {
  throw UnavailableError("the CUDA module has no operations yet");
}

std::map<std::string, std::string> cuda_library_versions() { return {}; }

}  // namespace ddpbench::ops
