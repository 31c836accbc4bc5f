// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_aside.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "base/error.h"

namespace ddpbench::comm {

namespace {

// How long a wait lasts before it asks `check` again.
constexpr auto kLook = std::chrono::milliseconds(20);

std::atomic<int> under_way = 0;
std::atomic<bool> failed = false;

}  // namespace

Aside::Aside(std::function<void()> call) {
  std::packaged_task<void()> task(std::move(call));
  done_ = task.get_future();
  thread_ = std::thread(std::move(task));
  ++under_way;
}

Aside::~Aside() {
  if (thread_.joinable()) thread_.detach();
}

void Aside::wait(const Patience& patience, const char* name, const std::string& words) {
  try {
    while (done_.wait_for(kLook) != std::future_status::ready) {
      if (patience.check) patience.check();
      if (has_passed(patience.deadline)) {
        throw CommTimeout(fmt::format("{}: deadline passed while {}", name, words), name);
      }
    }
  } catch (...) {
    mark_mpi_failed();
    throw;
  }
  if (thread_.joinable()) {
    thread_.join();
    --under_way;
  }
  done_.get();
}

void run_aside(std::function<void()> call, const Patience& patience, const char* name,
               const std::string& words) {
  Aside(std::move(call)).wait(patience, name, words);
}

bool has_left_thread() noexcept { return under_way.load() > 0; }
void mark_mpi_failed() noexcept { failed.store(true); }
bool has_mpi_failed() noexcept { return failed.load(); }

}  // namespace ddpbench::comm
