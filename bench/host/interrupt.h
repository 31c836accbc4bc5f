// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Signals that end a run set a flag that the supervisor polls, so that a report is left.
#pragma once

#include "base/error.h"

namespace ddpbench::bench {

// Ends a rank of a joined world that a signal asked to end (exit 130). Its words are always the
// same: ranks whose collectives it gives up know it by them.
class Interrupted : public Error {
 public:
  Interrupted() : Error("interrupted") {}
  const char* kind() const noexcept override { return "interrupted"; }
  int exit_code() const noexcept override { return 130; }
};

// From now on SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU and SIGPIPE set
// the flag instead of ending the process. A signal other than the first two stays ignored if it was
// ignored before (nohup). After SIGPIPE the stream that lost its reader (stdout, stderr) is
// replaced by /dev/null.
void catch_interrupts();
bool interrupt_requested();
// The last such signal; 0: none yet.
int interrupt_signal();

}  // namespace ddpbench::bench
