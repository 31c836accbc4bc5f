// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The common part of all backends' Communicators: it checks a call's arguments and turns the call
// into an Operation. For backends only.
#pragma once

#include "parallel/comm/operation.h"

namespace ddpbench::comm {

class OperationCommunicator : public Communicator {
 public:
  OperationCommunicator(int rank, int size) : rank_(rank), size_(size) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return size_; }

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

 protected:
  virtual Work issue(const Operation& operation, const CallOptions& options) = 0;

 private:
  void check_rank(int rank, const char* what) const;
  void check_parts(const Elements& whole, const Elements& part, const char* what) const;

  const int rank_;
  const int size_;
};

}  // namespace ddpbench::comm
