// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The one function that the CUDA module exports.
#include "parallel/cuda/linked_module.h"

extern "C" __attribute__((visibility("default"))) const ddpbench::CudaModule* ddpbench_cuda_module(
    const char* build) {
  return ddpbench::module_of_build(build, ddpbench::kLinkedModule);
}
