// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The check of every CUDA call, and the device on which calls act. For the CUDA module's sources.
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

// CUDA's calls act on the calling thread's current device. Makes a device current for its own
// lifetime.
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
