// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Work: the handle of an issued operation; and WorkState, which a backend implements behind it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

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
  virtual void synchronize(std::optional<Deadline> deadline) = 0;
  virtual WorkTimes times() const = 0;
  virtual bool is_done() = 0;
};

// Copyable; an empty Work counts as done.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}

  // Later work of `stream` starts after this work. On an inline CPU stream that blocks the caller,
  // with the communicator's default deadline. Throws CommError.
  void wait(Stream& stream) const {
    if (state_) state_->wait(stream);
  }
  // Blocks until done or `deadline`, by default the communicator's; may run the operation on the
  // calling thread. Throws CommError (CommTimeout) that names operation and awaited peer.
  void synchronize(std::optional<Deadline> deadline = {}) const {
    if (state_) state_->synchronize(deadline);
  }
  // Whether it is done or has failed, which waiting tells. It moves only while somebody waits.
  bool is_done() const { return !state_ || state_->is_done(); }
  // REQUIRES: done.
  WorkTimes times() const { return state_ ? state_->times() : WorkTimes{}; }

 private:
  std::shared_ptr<WorkState> state_;
};

}  // namespace ddpbench::comm
