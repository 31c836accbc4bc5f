// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/pause_watch.h"

#include <chrono>

#include "base/clock.h"

namespace ddpbench::bench {

PauseWatch::PauseWatch() : log_(steady_s()), thread_([this] { watch(); }) {}

PauseWatch::~PauseWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::vector<launch::Pause> PauseWatch::pauses() {
  const std::lock_guard lock(mutex_);
  log_.look(steady_s());
  return log_.pauses();
}

void PauseWatch::watch() {
  constexpr auto kEvery = std::chrono::milliseconds(100);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kEvery, [this] { return ending_; })) log_.look(steady_s());
}

}  // namespace ddpbench::bench
