// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CUDA's calls act on the calling thread's current device. For the CUDA module's sources.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/runtime/cuda/cuda_error.h"

namespace ddpbench::cuda {

// Makes a device current for its own lifetime.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) : wanted_(ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != wanted_) check(cudaSetDevice(wanted_), "cudaSetDevice");
  }
  ~CurrentDevice() {
    if (before_ != wanted_) static_cast<void>(cudaSetDevice(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int wanted_;
  int before_ = 0;
};

}  // namespace ddpbench::cuda
