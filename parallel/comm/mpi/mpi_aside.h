// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls of MPI that wait for other ranks without end, made with one.
#pragma once

#include <functional>
#include <string>

#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

// When to give a call up.
struct Patience {
  Deadline deadline;
  std::function<void()> check;  // called now and then; what it throws ends the wait; may be empty
};

// Makes the call on a thread of its own and waits for it; what it throws is thrown here. Throws
// CommTimeout at the deadline: `words` say what it waited for. A call that is given up stays on its
// thread: this process then ends without MPI_Finalize and without running what was registered
// for its exit, which could take the library away under that thread.
void run_aside(std::function<void()> call, const Patience& patience, const char* name,
               const std::string& words);

}  // namespace ddpbench::comm
