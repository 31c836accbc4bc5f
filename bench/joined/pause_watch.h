// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PauseWatch: notes when this rank of a joined world was stopped. It has no supervisor that would.
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

}  // namespace ddpbench::bench
