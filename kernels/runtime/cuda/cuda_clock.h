// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CudaClock: the times of CUDA events on the host's monotonic clock.
//
// CUDA tells only how far two events are apart, in milliseconds as a float: with a base that is
// seconds old the last digit is worth microseconds. So the base moves on, and what lies between the
// bases is added up in double precision. Used by the device's leading thread.
#pragma once

#include <cuda_runtime_api.h>

namespace ddpbench::cuda {

class CudaClock {
 public:
  // REQUIRES: the device is current. As in all members.
  explicit CudaClock(int ordinal);
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  // Looks at both clocks at once. Blocks until the device is idle.
  void calibrate();
  // REQUIRES: `event` was reached.
  double time_s(cudaEvent_t event);

 private:
  void move_base();

  int ordinal_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t base_ = nullptr, next_ = nullptr;
  double base_s_ = 0;
};

}  // namespace ddpbench::cuda
