// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PauseWatch: records the times in which this process was stopped. It is for processes that have no
// supervisor to record them, and for those that must know at once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "parallel/launch/pause_log.h"

namespace ddpbench::bench {

// Looks at the clock ten times a second, on a thread of its own, as long as it lives.
class PauseWatch {
 public:
  PauseWatch();
  ~PauseWatch();
  PauseWatch(const PauseWatch&) = delete;
  PauseWatch& operator=(const PauseWatch&) = delete;

  // All pauses until now. Any thread may ask.
  std::vector<launch::Pause> pauses();

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  launch::PauseLog log_;
  std::thread thread_;
};

// How many seconds of [begin_s, end_s] the pauses cover.
double stopped_time(const std::vector<launch::Pause>& pauses, double begin_s, double end_s);

}  // namespace ddpbench::bench
