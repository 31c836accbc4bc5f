// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The "ring" backend's Communicator: checks arguments, issues operations, registers memory, splits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/work_queue.h"

namespace ddpbench::comm {

class RingCommunicator : public Communicator {
 public:
  // This rank's end of `block`.
  RingCommunicator(std::shared_ptr<ControlBlock> block, int rank, const RingOptions& options);
  ~RingCommunicator() override;
  // Waits until all ranks have come (CommTimeout). To be called once, before anything else.
  void await_peers() { queue_->peers().await_attached(timeout_s()); }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }
  std::string backend() const override { return "ring"; }
  double timeout_s() const noexcept override;

  Work all_reduce(Elements data, ReduceOp op, CallOptions options) override;
  Work reduce(Elements data, ReduceOp op, int root, CallOptions options) override;
  Work broadcast(Elements data, int root, CallOptions options) override;
  Work all_gather(Elements in, Elements out, CallOptions options) override;
  Work reduce_scatter(Elements in, Elements out, ReduceOp op, CallOptions options) override;
  Work scatter(Elements in, Elements out, int root, CallOptions options) override;
  Work gather(Elements in, Elements out, int root, CallOptions options) override;
  Work send(Elements data, int peer, CallOptions options) override;
  Work recv(Elements data, int peer, CallOptions options) override;
  Work barrier(CallOptions options) override;

  void group_start() override { queue_->group_start(); }
  void group_end() override { queue_->group_end(); }
  std::unique_ptr<Communicator> split(int color, int key) override;
  void register_buffer(const Buffer& buffer) override;
  void deregister_buffer(const Buffer& buffer) override;
  void abort(const std::string& reason) noexcept override { queue_->abort(reason); }

 private:
  Work issue(const Operation& operation, const CallOptions& options);
  void check_rank(int rank, const char* what) const;
  void check_parts(const Elements& whole, const Elements& part, const char* what) const;
  // A blocking all-gather of one plain value a rank.
  template <typename T>
  std::vector<T> exchange(const T& own);

  const int rank_;
  const int size_;
  const std::shared_ptr<WorkQueue> queue_;
  int splits_ = 0;
};

}  // namespace ddpbench::comm
