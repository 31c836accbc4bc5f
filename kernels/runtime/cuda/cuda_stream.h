// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and graphs of CUDA, their clock, and what only the sources of the CUDA module may
// ask of a CUDA device.
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

// An event that is recorded while its stream records becomes part of the recording, and every
// replay reaches it anew. It orders the work of other recordings and streams after a replay. It
// does not order work within the recording.
class CudaEvent final : public Event {
 public:
  CudaEvent(int ordinal, std::shared_ptr<CudaClock> clock);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool reached() const override;
  double time_s() const override;

  void record_on(cudaStream_t stream);
  void order(cudaStream_t stream) const;  // later work of `stream` starts after this event

 private:
  std::shared_ptr<CudaClock> clock_;
  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

class CudaStream final : public Stream {
 public:
  CudaStream(Device& device, int ordinal);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Device& device() const noexcept override { return device_; }
  void record(Event& event) override;
  void wait(const Event& event) override;
  void synchronize() override;
  bool can_record() const noexcept override { return true; }
  void begin_recording() override;
  std::unique_ptr<Recording> end_recording() override;

  cudaStream_t native() const noexcept { return stream_; }

 private:
  Device& device_;
  int ordinal_;
  cudaStream_t stream_ = nullptr;
};

// The CUDA stream behind a Stream. Throws InternalError when it belongs to another kind of device.
cudaStream_t native_stream(Stream& stream);

}  // namespace ddpbench::cuda
