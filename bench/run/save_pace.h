// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SavePace: when a growing report is saved again. All of it is written each time, so that saving
// after every run of a long sweep would cost more and more of the machine's time.
#pragma once

namespace ddpbench::bench {

// Times are seconds of one clock that only goes forward.
class SavePace {
 public:
  // Always where the last save took no time to speak of, else so seldom that saving takes about a
  // twentieth of the time.
  bool due(double now_s) const { return cost_s_ < kCheapS || now_s - saved_s_ >= kRest * cost_s_; }

  void saved(double begin_s, double end_s) {
    saved_s_ = end_s;
    cost_s_ = end_s - begin_s;
  }

 private:
  static constexpr double kCheapS = 0.02;
  static constexpr double kRest = 20;  // times what the last save took

  double saved_s_ = 0, cost_s_ = 0;
};

}  // namespace ddpbench::bench
