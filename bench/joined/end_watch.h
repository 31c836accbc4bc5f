// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a rank of a joined world comes out of its calls when the world ends: EndWatch ends its waits,
// HangGuard ends the process where a library keeps a thread for ever.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::bench {

// While this object lives and the session is under way, a thread of its own sees to it that the
// process ends. Open MPI is known not to return from a call: a rank whose peer has gone tells its
// daemon so, and waits for an answer that a daemon which ends the job does not give.
class HangGuard {
 public:
  // `pending`: the call in which this rank is (number 0: none), asked on the guard's thread. One
  // that lasts for `timeout_s` (0: no limit) and some seconds has not kept its own deadline.
  // `end`: called on the guard's thread with what had to end this rank, while the other threads of
  // the rank go on or hang; it must end the process.
  HangGuard(double timeout_s, std::function<launch::CallMark()> pending,
            std::function<void(const std::exception&)> end);
  // Waits for ever once `end` was called.
  ~HangGuard();
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

  // This rank must end because of `error`: from now on it has a moment to do so by itself. The
  // first call counts. Thread-safe.
  void expect_end(std::exception_ptr error);

 private:
  void watch();
  bool is_overdue();

  const double timeout_s_;
  const std::function<launch::CallMark()> pending_;
  const std::function<void(const std::exception&)> end_;
  launch::CallMark seen_;    // the guard's thread's alone
  double seen_since_s_ = 0;  // on the DeadlineClock
  std::mutex mutex_;         // guards what follows
  std::condition_variable changed_;
  std::exception_ptr error_;
  bool leaving_ = false;
  std::thread thread_;
};

// While this object lives, a reason to end ends this rank's waits in `communicators`, and what
// `guard` guards.
class EndWatch {
 public:
  // `reason` says why to end, on a thread of this object; empty: go on. `guard` hears of the reason
  // before the communicators do; null: there is none.
  EndWatch(std::vector<comm::Communicator*> communicators, std::function<std::string()> reason,
           HangGuard* guard);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

 private:
  void watch();

  std::vector<comm::Communicator*> communicators_;
  std::function<std::string()> reason_;
  HangGuard* const guard_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ddpbench::bench
