// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the communicators of CUDA devices have in common: a communication stream, its order with the
// caller's streams, groups, and works whose events a watchdog looks at.
//
// A call makes the communication stream wait for what the caller's stream holds, and returns. It
// thereby joins a recording of that stream, until a stream waits for the work. Start::deferred is
// Start::now.
//
// Messages whose ranks wait for each other in a circle (all send first) need a group, as with NCCL.
// The works of a group are done together.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/cuda/cuda_stream.h"
#include "parallel/comm/comm_module.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/cuda/work_monitor.h"

namespace ddpbench::comm {

class CudaCommunicator : public Communicator, protected MonitoredBackend {
 public:
  ~CudaCommunicator() override;
  CudaCommunicator(const CudaCommunicator&) = delete;
  CudaCommunicator& operator=(const CudaCommunicator&) = delete;

  double timeout_s() const noexcept override { return options_.timeout_s; }
  void group_start() override;
  void group_end() override;
  void abort(const std::string& reason) noexcept override { monitor_->abort(reason); }
  void check() override { monitor_->throw_if_failed(); }

 protected:
  using Works = std::span<const std::shared_ptr<CudaWork>>;

  CudaCommunicator(Device& device, int rank, int size, const WorldOptions& options);

  Work issue(const Operation& operation, const CallOptions& options) override;
  // Queues the operations of one call or group on stream(). The device is current.
  virtual void launch(Works works) = 0;

  // The most derived class calls these last in its constructor and first in its destructor.
  void start_watching() { monitor_->start(*this); }
  void stop_watching() noexcept { monitor_->stop(); }

  Device& device() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  cudaStream_t stream() const noexcept { return stream_; }
  const WorldOptions& options() const noexcept { return options_; }
  WorkMonitor& monitor() const noexcept { return *monitor_; }

 private:
  void run(Works works);

  Device& device_;
  const int ordinal_;
  const WorldOptions options_;
  const std::shared_ptr<WorkMonitor> monitor_;
  cudaStream_t stream_ = nullptr;
  // An event that a recording has touched is of no use outside of it until it is recorded again.
  cudaEvent_t fork_ = nullptr;
  int group_depth_ = 0;
  std::vector<std::shared_ptr<CudaWork>> group_;
};

}  // namespace ddpbench::comm
