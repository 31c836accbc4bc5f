// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ctrl-C and SIGTERM set a flag that the supervisor polls.
#pragma once

#include "base/error.h"

namespace ddpbench::bench {

// Ends a rank of a joined world, whose launcher sent the signal to all ranks (exit 130).
class Interrupted : public Error {
 public:
  using Error::Error;
  const char* kind() const noexcept override { return "interrupted"; }
  int exit_code() const noexcept override { return 130; }
};

// From now on SIGINT and SIGTERM set the flag instead of ending the process.
void catch_interrupts();
bool interrupt_requested();

}  // namespace ddpbench::bench
