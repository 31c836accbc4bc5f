// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "ring" backend's Communicator: issues operations, registers memory, splits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/operation_communicator.h"
#include "parallel/comm/shm/queue/work_queue.h"

namespace ddpbench::comm {

class RingCommunicator : public OperationCommunicator {
 public:
  // This rank's end of `block`.
  RingCommunicator(std::shared_ptr<ControlBlock> block, int rank, const RingOptions& options);
  ~RingCommunicator() override;
  // Waits until all ranks have come (CommTimeout). To be called once, before anything else.
  void await_peers() { queue_->peers().await_attached(timeout_s()); }

  std::string backend() const override { return "ring"; }
  double timeout_s() const noexcept override;

  void group_start() override { queue_->group_start(); }
  void group_end() override { queue_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;
  void abort(const std::string& reason) noexcept override { queue_->abort(reason); }
  void check() override { queue_->peers().check_all(); }

 private:
  Work issue(const Operation& operation, const CallOptions& options) override;
  // A blocking all-gather of one plain value a rank.
  template <typename T>
  std::vector<T> exchange(const T& own);

  const std::shared_ptr<WorkQueue> queue_;
  int splits_ = 0;
};

}  // namespace ddpbench::comm
