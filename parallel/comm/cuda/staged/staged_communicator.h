// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// StagedCommunicator: a CUDA device's end of a communicator of the host (see make_staged).
//
// The host's part of a call is a host function of the communication stream (cudaLaunchHostFunc),
// between the copy to the host and the copy back. So a stream that waits for the work waits for an
// event. Only the host's own communicator can be late: no flag has to be raised, and an abort of
// that communicator is enough to free the streams. CUDA runs host functions on a thread of its own.
// Waits for peers block that thread. CUDA allows that as long as they wait for no device work of
// this process that was queued later.
//
// Host functions of one process may run one behind the other, even those of different streams. So
// one process must not be two ranks that way.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/cuda/cuda_communicator.h"
#include "parallel/comm/cuda/staged/staging_memory.h"

namespace ddpbench::comm {

class HostCalls;

class StagedCommunicator final : public CudaCommunicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> host, Device& device);
  ~StagedCommunicator() override;

  std::string backend() const override;
  double timeout_s() const noexcept override;
  std::vector<AllReduceAlgorithm> all_reduces_run() const override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;
  void abort(const std::string& reason) noexcept override;
  void check() override;

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  void launch(std::span<const Call> calls) override;
  void queue_host_calls(std::span<const Call> calls);
  Operation on_host(const Operation& operation);
  bool is_root(const Operation& operation) const { return rank() == operation.root; }
  bool reads_in(const Operation& operation) const;
  bool writes_out(const Operation& operation) const;
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  // Waits until nothing is in flight; false at the deadline.
  bool is_idle_until(Deadline deadline) const noexcept;
  // Waits until nothing is in flight. Throws CommTimeout.
  void await_idle();

  std::string asynchronous_error() override { return ""; }  // host functions tell theirs at once
  bool abandon() noexcept override;

  // Shared with queued calls, which may outlive a communicator whose device hangs.
  const std::shared_ptr<HostCalls> host_;
  std::unique_ptr<StagingMemory> memory_;
  std::vector<Operation> staged_;  // operations of the current launch
};

}  // namespace ddpbench::comm
