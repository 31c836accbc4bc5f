// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_aside.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "base/error.h"

namespace ddpbench::comm {

namespace {

// How long a wait lasts before it asks `check` again.
constexpr auto kLook = std::chrono::milliseconds(20);

std::atomic<bool> left_thread = false, failed = false;

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
    thread.detach();
    left_thread.store(true);
    mark_mpi_failed();
    throw;
  }
  thread.join();
  done.get();
}

bool has_left_thread() noexcept { return left_thread.load(); }
void mark_mpi_failed() noexcept { failed.store(true); }
bool has_mpi_failed() noexcept { return failed.load(); }

}  // namespace ddpbench::comm
