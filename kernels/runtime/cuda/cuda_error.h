// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The check of every CUDA call. For the CUDA module's sources.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

namespace ddpbench::cuda {

// Throws DeviceError "<what>: <CUDA's name>: <CUDA's text>" unless `status` is success.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceError(
      fmt::format("{}: {}: {}", what, cudaGetErrorName(status), cudaGetErrorString(status)));
}

// The same for a message that is costly to build: `describe` is called on failure only.
template <typename Describe>
void check_with(cudaError_t status, Describe&& describe) {
  if (status != cudaSuccess) check(status, std::string(describe()).c_str());
}

}  // namespace ddpbench::cuda
