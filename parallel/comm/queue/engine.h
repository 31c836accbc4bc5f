// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations that a rank has issued, and how an engine carries them out.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

class Executor;

// An operation that a rank has issued, its place in the queue and its outcome.
class QueuedWork : public WorkState {
 public:
  QueuedWork(std::shared_ptr<Executor> executor, const Operation& operation, Start start)
      : executor_(std::move(executor)), operation_(operation), start_(start) {}

  void wait(Stream& stream) override;
  void synchronize(std::optional<Deadline> deadline) override;
  WorkTimes times() const override;
  bool is_done() override { return finished(); }

  const Operation& operation() const noexcept { return operation_; }
  Start start() const noexcept { return start_; }
  // Place in the queue, from 1; 0 while its group is open.
  std::uint64_t sequence() const noexcept { return sequence_; }
  void set_sequence(std::uint64_t sequence) noexcept { sequence_ = sequence; }

  bool finished() const noexcept { return finished_.load(std::memory_order_seq_cst); }
  // REQUIRES: finished. Throws the error of a failed one.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

  // Called by the executing thread.
  void begin() noexcept { times_.start_s = steady_s(); }
  void peers_arrived() noexcept {  // the first call counts
    if (times_.arrived_s == 0) times_.arrived_s = steady_s();
  }
  // Completes a message now. `arrival_told`: peers_arrived() was called when the peer came, or it
  // comes now.
  void complete(bool arrival_told = true);
  // Completes a collective now; `times` lacks the end.
  void complete(const WorkTimes& times);
  void fail(std::exception_ptr error) noexcept;

 private:
  const std::shared_ptr<Executor> executor_;
  const Operation operation_;
  const Start start_;
  std::uint64_t sequence_ = 0;
  WorkTimes times_;
  std::exception_ptr error_;
  std::atomic<bool> finished_ = false;
};

// The thread that executes. A calling thread has nothing else to do; the communication thread
// usually shares its core with the rank's computing thread.
enum class Waiter : std::uint8_t { caller, communication_thread };

// It knows how an operation is carried out; the executor decides which thread does it, and when.
class Engine {
 public:
  virtual ~Engine() = default;

  // The executing thread calls these; there is one at a time.

  // Runs a collective to its end; the work sets times.end_s. Messages in flight progress meanwhile.
  // Throws CommError.
  virtual WorkTimes run_collective(const Operation& operation, Deadline deadline,
                                   Waiter waiter) = 0;
  // Puts a message in flight. await() completes its work.
  virtual void start_message(std::shared_ptr<QueuedWork> work) = 0;
  // Advances messages until done(). `operation` is what is waited for; null: any message. Throws
  // CommTimeout after the deadline, and CommError.
  virtual void await(const Operation* operation, Deadline deadline, Waiter waiter,
                     PredicateRef done) = 0;
  // Gives up the messages in flight.
  virtual void drop_messages() noexcept = 0;

  // Any thread may call these.

  // Makes await() of this rank look at done() again.
  virtual void wake_waiter() noexcept = 0;
  // All current and later operations of all ranks fail with `reason`. The first reason wins.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Throws CommError when abort() was called, by any rank.
  virtual void throw_if_aborted(const Operation* operation) const = 0;
  // Communicator::check().
  virtual void check() { throw_if_aborted(nullptr); }
  // Makes this rank's waits fail: its communicator is being destroyed.
  virtual void stop() noexcept = 0;
  // Tells the peers that this rank does nothing any more. Called after stop().
  virtual void leave() noexcept = 0;
  // As call_prefix().
  virtual std::string prefix(const Operation* operation) const = 0;
};

}  // namespace ddpbench::comm
