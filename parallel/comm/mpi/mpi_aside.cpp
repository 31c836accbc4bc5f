// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_aside.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <thread>
#include <utility>

#include "base/error.h"
#include "parallel/comm/mpi/mpi_session.h"

namespace ddpbench::comm {

namespace {

// How long a wait lasts before it asks `check` again.
constexpr auto kLook = std::chrono::milliseconds(20);

void leave_behind(std::thread& thread) {
  thread.detach();
  MpiSession::mark_failed();
  ::on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        ::_exit(status);
      },
      nullptr);
}

}  // namespace

void run_aside(std::function<void()> call, const Patience& patience, const char* name,
               const std::string& words) {
  std::packaged_task<void()> task(std::move(call));
  std::future<void> done = task.get_future();
  std::thread thread(std::move(task));
  try {
    while (done.wait_for(kLook) != std::future_status::ready) {
      if (patience.check) patience.check();
      if (has_passed(patience.deadline)) {
        throw CommTimeout(fmt::format("{}: deadline passed while {}", name, words), name);
      }
    }
  } catch (...) {
    leave_behind(thread);
    throw;
  }
  thread.join();
  done.get();
}

}  // namespace ddpbench::comm
