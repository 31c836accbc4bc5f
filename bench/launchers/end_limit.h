// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// EndLimit: until when the processes of a launched run may end by themselves, once they are to end.
// Pure.
#pragma once

#include <algorithm>
#include <limits>

namespace ddpbench::bench {

// How often a supervisor looks at a launched run; what is written to it wakes it at once.
inline constexpr int kLookAtRunMs = 100;

class EndLimit {
 public:
  // Ranks that were asked to end leave a report first.
  static constexpr double kInterrupted_s = 5;
  // After SIGKILL there is only the way to the host and back.
  static constexpr double kKilled_s = 5;
  // Ranks that miss another end by their own deadline (--timeout) and write the report. Once one
  // has ended so, the others have no longer than that.
  static constexpr double kBeyondTimeout_s = 5;

  // They are to end within `seconds` from now. An earlier limit holds.
  void within(double now_s, double seconds) { limit_s_ = std::min(limit_s_, now_s + seconds); }
  // A rank has failed; the others notice. `timeout_s`: 0: never.
  void after_failure(double now_s, double timeout_s) {
    if (timeout_s > 0) within(now_s, timeout_s + kBeyondTimeout_s);
  }
  bool passed(double now_s) const { return now_s > limit_s_; }
  // The next limit, after the one that has passed.
  void renew(double now_s) { limit_s_ = now_s + kKilled_s; }
  void move(double seconds) { limit_s_ += seconds; }  // this process was stopped for so long

 private:
  double limit_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace ddpbench::bench
