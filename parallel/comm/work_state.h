// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a backend implements behind Work. For backends only.
#pragma once

#include <cstdint>

#include "parallel/comm/communicator.h"

namespace ddpbench::comm {

// Contracts as those of Work.
class WorkState {
 public:
  virtual ~WorkState() = default;
  virtual void wait(Stream& stream) = 0;
  virtual void synchronize(Deadline deadline) = 0;
  virtual void synchronize() = 0;
  virtual bool test() = 0;
  virtual WorkTimes times() const = 0;

  // For wait_any. Works with equal source() wake each other: changes() grows when one of them may
  // have become done, and await_change returns when it differs from `seen`, or at the deadline.
  virtual const void* source() const = 0;
  virtual std::uint32_t changes() const = 0;
  virtual void await_change(std::uint32_t seen, Deadline deadline) = 0;
};

}  // namespace ddpbench::comm
