// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the sources of the CUDA module may ask of CUDA's devices and streams, and the clock of
// their events.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/runtime/device.h"

namespace ddpbench::cuda {

// The times of CUDA events on the host's monotonic clock.
//
// CUDA gives only the distance of two events, in milliseconds as a float: when the base event is
// seconds old, the last digit is worth microseconds. So the base moves on, and the distances
// between bases are added up in double precision. Only the device's leading thread uses the clock.
class CudaClock {
 public:
  // REQUIRES, as for all members: the device is current.
  explicit CudaClock(int ordinal);
  ~CudaClock();
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;

  // Reads both clocks at one moment. Blocks until the device is idle.
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

class NativeDevice : public Device {
 public:
  virtual int ordinal() const noexcept = 0;  // CUDA's number of the GPU
  virtual std::shared_ptr<CudaClock> clock() const = 0;
};

// Throws InternalError when `device` is of another kind.
NativeDevice& native_device(Device& device);

// The CUDA stream behind a Stream. Throws InternalError when it belongs to another kind of device.
cudaStream_t native_stream(Stream& stream);

}  // namespace ddpbench::cuda
