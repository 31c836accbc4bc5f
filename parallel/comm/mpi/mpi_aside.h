// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Gives a deadline to calls of MPI that have none, by running them on a thread of their own.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <thread>

#include "parallel/comm/store/deadline.h"

namespace ddpbench::comm {

// When to give a call up.
struct Patience {
  Deadline deadline;
  std::function<void()> check;  // called now and then; what it throws ends the wait; may be empty
};

// A call on a thread of its own.
class Aside {
 public:
  explicit Aside(std::function<void()> call);
  // If the call has not returned yet, its thread stays behind.
  ~Aside();
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  // Waits for it; what it throws is thrown here, each time. Throws CommTimeout at the deadline:
  // `name` is the call's, and `words` say what it waited for. A call that is given up stays on its
  // thread: see CommModule::has_left_thread(). One thread at a time.
  void wait(const Patience& patience, const char* name, const std::string& words);

 private:
  std::shared_future<void> done_;
  std::thread thread_;
};

// Runs the call on a thread of its own and waits for it.
void run_aside(std::function<void()> call, const Patience& patience, const char* name,
               const std::string& words);

// Whether a call has not returned, or its result was never waited for.
bool has_left_thread() noexcept;

// MPI_Finalize is not called when this process ends: it waits for all ranks, and some might not
// come. A call that was given up does the same.
void mark_mpi_failed() noexcept;
bool has_mpi_failed() noexcept;

}  // namespace ddpbench::comm
