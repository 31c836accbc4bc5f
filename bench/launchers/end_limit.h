// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// EndLimit: the deadline by which the processes of a launched run must have ended by themselves,
// once the run is ending. Pure.
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
  // The report of the ranks is the last that they do. Only their own end, and their launcher's, is
  // still to come.
  static constexpr double kReported_s = 10;
  // After SIGKILL only the round trip to the host takes time.
  static constexpr double kKilled_s = 5;
  // Ranks that miss a peer end at their own deadline (--timeout) and write the report. They get
  // this much time beyond it. What is left then must have ended 5 s beyond it, and mpirun takes a
  // third of a second to end.
  static constexpr double kBeyondTimeout_s = 4.5;
  // Ranks that have met see at once that one has died, and report it. Where they have not met, only
  // the supervisor knows.
  static constexpr double kUnnoticed_s = 10;
  // A rank that gives up has waited a moment for all others to do so, too (JoinedPeers::settle).
  // Those that have not, and do not within this time, are stopped.
  static constexpr double kAfterGivingUp_s = 2;

  // The processes must end within `seconds` from now. An earlier deadline stays.
  void within(double now_s, double seconds) { limit_s_ = std::min(limit_s_, now_s + seconds); }
  // A rank has failed, and the others will notice within `timeout_s` (--timeout; 0: no deadline).
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
