// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/pause_watch.h"

#include <algorithm>
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

double stopped_time(const std::vector<launch::Pause>& pauses, double begin_s, double end_s) {
  double sum = 0;
  for (const launch::Pause& pause : pauses) {
    sum += std::max(0.0, std::min(end_s, pause.end_s) - std::max(begin_s, pause.begin_s));
  }
  return sum;
}

}  // namespace ddpbench::bench
