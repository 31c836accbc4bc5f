// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// QueuedWork: an operation that a rank has issued, its place in the queue and its outcome.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>

#include "parallel/comm/operation.h"
#include "parallel/comm/work.h"

namespace ddpbench::comm {

class QueuedWork;

// Brings works to their end for the threads that wait for them. Thread-safe.
class WorkDriver {
 public:
  virtual ~WorkDriver() = default;
  // Blocks until the work is done; rethrows its error.
  virtual void complete(QueuedWork& work, Deadline deadline) = 0;
  virtual bool test(QueuedWork& work) = 0;
  // Grows with every work that is done; await_change returns when it differs from `seen`.
  virtual std::uint32_t changes() const noexcept = 0;
  virtual void await_change(std::uint32_t seen, Deadline deadline) = 0;
  // The deadline, in seconds, of waits that have none of their own.
  virtual double timeout_s() const noexcept = 0;
  // Called on the executing thread when a work has succeeded.
  virtual void on_complete(const QueuedWork& work) = 0;
};

class QueuedWork : public WorkState {
 public:
  QueuedWork(std::shared_ptr<WorkDriver> driver, const Operation& operation, Start start);

  void wait(Stream& stream) override;
  void synchronize(Deadline deadline) override;
  void synchronize() override;
  bool test() override;
  WorkTimes times() const override;
  const void* source() const override { return driver_.get(); }
  std::uint32_t changes() const override { return driver_->changes(); }
  void await_change(std::uint32_t seen, Deadline deadline) override;

  const Operation& operation() const noexcept { return operation_; }
  Start start() const noexcept { return start_; }
  // Place in the queue, from 1; 0 while its group is open.
  std::uint64_t sequence() const noexcept { return sequence_; }
  void set_sequence(std::uint64_t sequence) noexcept { sequence_ = sequence; }

  bool finished() const noexcept { return finished_.load(std::memory_order_seq_cst); }
  // REQUIRES: finished. Throws the error of a failed one.
  void rethrow() const;

  // Called by the executing thread.
  void begin() noexcept;
  void peers_arrived() noexcept;  // the first call counts
  // Completes a message now. `arrival_told`: peers_arrived() was called when the peer came, or it
  // comes now.
  void complete(bool arrival_told = true);
  // Completes a collective now; `times` lacks the end.
  void complete(const WorkTimes& times);
  void fail(std::exception_ptr error) noexcept;

 private:
  const std::shared_ptr<WorkDriver> driver_;
  const Operation operation_;
  const Start start_;
  std::uint64_t sequence_ = 0;
  WorkTimes times_;
  std::exception_ptr error_;
  std::atomic<bool> finished_ = false;
};

}  // namespace ddpbench::comm
