// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The ring backend's WorkState: an operation, its place in the queue and its outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "parallel/comm/operation.h"
#include "parallel/comm/work_state.h"

namespace ddpbench::comm {

class WorkQueue;

class RingWork : public WorkState {
 public:
  RingWork(std::shared_ptr<WorkQueue> queue, const Operation& operation, Start start);
  ~RingWork() override;

  void wait(Stream& stream) override;
  void synchronize(Deadline deadline) override;
  void synchronize() override;
  bool test() override;
  WorkTimes times() const override;
  const void* source() const override { return queue_.get(); }
  std::uint32_t changes() const override;
  void await_change(std::uint32_t seen, Deadline deadline) override;

  const Operation& operation() const noexcept { return operation_; }
  Start start() const noexcept { return start_; }
  // Place in the queue, from 1; 0 while its group is open.
  std::uint64_t sequence() const noexcept { return sequence_; }
  void set_sequence(std::uint64_t sequence) noexcept { sequence_ = sequence; }

  bool finished() const noexcept { return finished_.load(std::memory_order_seq_cst); }
  // REQUIRES: finished. Throws the error of a failed one.
  void rethrow() const;

  // By the executing thread.
  void begin() noexcept;
  void peers_arrived() noexcept;  // the first call counts
  void complete() noexcept;
  void complete(double start_s, double arrived_s) noexcept;
  void fail(std::exception_ptr error) noexcept;

 private:
  const std::shared_ptr<WorkQueue> queue_;
  const Operation operation_;
  const Start start_;
  std::uint64_t sequence_ = 0;
  WorkTimes times_;
  std::exception_ptr error_;
  std::atomic<bool> finished_ = false;
};

}  // namespace ddpbench::comm
