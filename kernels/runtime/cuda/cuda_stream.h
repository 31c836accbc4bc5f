// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What only the sources of the CUDA module may ask of CUDA's devices and streams, and the clock of
// their events.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "kernels/runtime/device.h"

namespace ddpbench::cuda {

// Owners of streams, events and graphs.
struct HandleDeleter {
  void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  void operator()(cudaEvent_t event) const { static_cast<void>(cudaEventDestroy(event)); }
  void operator()(cudaGraph_t graph) const { static_cast<void>(cudaGraphDestroy(graph)); }
  void operator()(cudaGraphExec_t graph) const { static_cast<void>(cudaGraphExecDestroy(graph)); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, HandleDeleter>;

// The times of CUDA events on the host's monotonic clock.
//
// CUDA gives only the distance of two events, in milliseconds as a float: when the base event is
// seconds old, the last digit is worth microseconds. So the base moves on, and the distances
// between bases are added up in double precision. Only the device's leading thread uses the clock.
class CudaClock {
 public:
  // REQUIRES, as for all members: the device is current.
  explicit CudaClock(int ordinal);

  // Reads both clocks at one moment. Blocks until the device is idle.
  void calibrate();
  // REQUIRES: `event` was reached.
  double time_s(cudaEvent_t event);

 private:
  void move_base();

  int ordinal_;
  Owned<cudaStream_t> stream_;
  Owned<cudaEvent_t> base_, next_;
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
