// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Work: the handle of an issued operation; and WorkState, which a backend implements behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "parallel/comm/store/deadline.h"

namespace ddpbench {
class Stream;
}

namespace ddpbench::comm {

// Times of one finished Work on this rank, in the communicator's clock (CPU: the device's clock).
struct WorkTimes {
  double start_s = 0;        // this rank entered the operation
  double arrived_s = 0;      // all peers it needs had entered it
  double end_s = 0;          // done on this rank
  bool arrived_told = true;  // false: the backend cannot tell; arrived_s is start_s
};

// For backends only. The contracts are those of Work. States are pooled, so that a step allocates
// nothing.
class WorkState {
 public:
  virtual ~WorkState() = default;
  virtual void wait(Stream& stream) = 0;
  virtual void synchronize(Deadline deadline) = 0;
  virtual void synchronize() = 0;
  virtual bool test() = 0;
  virtual WorkTimes times() const = 0;

  // For wait_any. Works with equal source() wake each other. changes() grows when one of them may
  // have become done. await_change returns when it differs from `seen`, or at the deadline.
  virtual const void* source() const = 0;
  virtual std::uint32_t changes() const = 0;
  virtual void await_change(std::uint32_t seen, Deadline deadline) = 0;
};

// Copyable; an empty Work counts as done.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state);

  // Later work of `stream` starts after this work. On an inline CPU stream that blocks the caller,
  // with the communicator's default deadline. Throws CommError.
  void wait(Stream& stream) const;
  // Blocks until done or `deadline`; may run the operation on the calling thread. Throws CommError
  // (CommTimeout) with rank, world size, operation, bytes and the awaited peer.
  void synchronize(Deadline deadline) const;
  void synchronize() const;  // with the communicator's default deadline
  // True when done. Starts a deferred operation. Throws CommError when it failed.
  bool test() const;
  // REQUIRES: done.
  WorkTimes times() const;

 private:
  friend std::size_t wait_any(std::span<const Work> works, Deadline deadline);
  std::shared_ptr<WorkState> state_;
};

// Returns the index of a work that is done; blocks until one is. Throws CommError, CommTimeout.
std::size_t wait_any(std::span<const Work> works, Deadline deadline);

}  // namespace ddpbench::comm
