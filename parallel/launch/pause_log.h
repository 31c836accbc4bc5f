// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// PauseLog: finds the times in which this process was stopped (Ctrl-Z, SIGSTOP, a debugger). No
// system call reports them. A process that reads the clock often sees a gap where it was stopped.
#pragma once

#include <algorithm>
#include <vector>

namespace ddpbench::launch {

// A time, in seconds of CLOCK_MONOTONIC, in which this process was stopped, and mostly the whole
// job with it. No rank can be blamed for it.
struct Pause {
  double begin_s = 0, end_s = 0;
};

// How many seconds of [begin_s, end_s] the pauses cover.
inline double stopped_time(const std::vector<Pause>& pauses, double begin_s, double end_s) {
  double sum = 0;
  for (const Pause& pause : pauses) {
    sum += std::max(0.0, std::min(end_s, pause.end_s) - std::max(begin_s, pause.begin_s));
  }
  return sum;
}

class PauseLog {
 public:
  // A longer time between two looks is a pause (as DeadlineClock::kSuspended).
  static constexpr double kSuspended_s = 2;

  explicit PauseLog(double now_s) : looked_s_(now_s) {}

  // To be called several times a second. Returns how long the process was stopped since the last
  // look; 0: it was not.
  double look(double now_s) {
    const double since_s = now_s - looked_s_;
    const bool suspended = since_s > kSuspended_s;
    if (suspended) pauses_.push_back({looked_s_, now_s});
    looked_s_ = now_s;
    return suspended ? since_s : 0;
  }
  double looked_s() const { return looked_s_; }  // the time of the last look
  const std::vector<Pause>& pauses() const { return pauses_; }

 private:
  double looked_s_;
  std::vector<Pause> pauses_;
};

}  // namespace ddpbench::launch
