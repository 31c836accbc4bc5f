// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Engine: what a backend with blocking collectives gives an Executor. It knows how an operation is
// carried out; the executor decides which thread does it, and when.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/comm/queue/predicate_ref.h"
#include "parallel/comm/queue/queued_work.h"

namespace ddpbench::comm {

// The thread that executes. A calling thread has nothing else to do; the communication thread
// usually shares its core with the rank's computing thread.
enum class Waiter : std::uint8_t { caller, communication_thread };

class Engine {
 public:
  virtual ~Engine() = default;

  // The executing thread calls these; there is one at a time.

  // Runs a collective to its end; the work sets times.end_s. Messages in flight progress meanwhile.
  // Throws CommError.
  virtual WorkTimes run_collective(const Operation& operation, Deadline deadline,
                                   Waiter waiter) = 0;
  // Puts a message in flight. advance_messages() and await() complete its work.
  virtual void start_message(std::shared_ptr<QueuedWork> work, Deadline deadline) = 0;
  // Advances messages as far as possible without waiting. Throws CommError.
  virtual void advance_messages() = 0;
  // Advances messages until done(). `operation` is what is waited for; null: any message. Throws
  // CommTimeout after the deadline, and CommError.
  virtual void await(const Operation* operation, Deadline deadline, Waiter waiter,
                     PredicateRef done) = 0;
  // The earliest deadline of the messages that were issued to start at once, if there are any.
  virtual std::optional<Deadline> earliest_message_deadline() const = 0;
  // Takes out the messages in flight that are not done.
  virtual std::vector<std::shared_ptr<QueuedWork>> take_messages() = 0;

  // Any thread may call these.

  // Makes await() of this rank look at done() again.
  virtual void wake_waiter() noexcept = 0;
  // All current and later operations of all ranks fail with `reason`. The first reason wins.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Throws CommError when abort() was called, by any rank.
  virtual void throw_if_aborted(const Operation* operation) const = 0;
  // Makes this rank's waits fail: its communicator is being destroyed.
  virtual void stop() noexcept = 0;
  // Tells the peers that this rank does nothing any more. Called after stop().
  virtual void leave() noexcept = 0;
  // "rank 0 of 2: all_reduce of 4 bytes: ", for messages; the operation may be null.
  virtual std::string prefix(const Operation* operation) const = 0;
};

}  // namespace ddpbench::comm
