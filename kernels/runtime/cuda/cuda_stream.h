// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams, events and graphs of CUDA. For the CUDA module's sources.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/runtime/cuda/cuda_clock.h"
#include "kernels/runtime/device.h"

namespace ddpbench::cuda {

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
