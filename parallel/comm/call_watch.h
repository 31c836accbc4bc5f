// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CallWatch: what a program learns of its rank's calls while they run, and how it disturbs them in
// tests and demonstrations.
#pragma once

#include "parallel/comm/operation.h"

namespace ddpbench::comm {

// The threads that execute calls call begun(), done() and hold_up_s(). There may be two at once,
// where a communicator has two queues.
class CallWatch {
 public:
  virtual ~CallWatch() = default;

  // This rank begins the call, or has completed it. Messages may be completed in another order.
  // Both must be cheap.
  virtual void begun(const Operation& operation) = 0;
  virtual void done(const Operation& operation) = 0;

  // Asked before each call: for how many seconds this rank stands still before it begins it.
  // Infinite: until the communicator fails.
  virtual double hold_up_s() { return 0; }

  // Whether the link of this rank may break at all, and whether it is broken now: then nothing
  // leaves this rank nor reaches it, and what was sent arrives when it is whole again. Any thread
  // may ask. Only links between ranks that share no memory can break. They are those of all
  // communicators that are split off, too.
  virtual bool breaks_link() const { return false; }
  virtual bool link_is_broken() { return false; }
};

}  // namespace ddpbench::comm
