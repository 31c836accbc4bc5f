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
};

}  // namespace ddpbench::comm
