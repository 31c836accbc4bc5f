// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of the CUDA driver that have no counterpart in the runtime. For the CUDA module's
// sources.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/runtime/cuda/cuda_error.h"

namespace ddpbench::cuda {

// Finds a driver function through the runtime. So no code here links the driver library, which a
// machine without a GPU lacks.
template <typename Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 13000
  constexpr unsigned kOldestVersion = 12000;
  check(
      cudaGetDriverEntryPointByVersion(name, &function, kOldestVersion, cudaEnableDefault, &result),
      name);
#else
  check(cudaGetDriverEntryPoint(name, &function, cudaEnableDefault, &result), name);
#endif
  if (result != cudaDriverEntryPointSuccess) {
    throw DeviceError(fmt::format("the CUDA driver has no {}", name));
  }
  return reinterpret_cast<Function>(function);
}

}  // namespace ddpbench::cuda
