// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Processor time of the calling thread, and how to spend some.
#pragma once

#include <ctime>

namespace ddpbench {

// CLOCK_THREAD_CPUTIME_ID in seconds: it stands still while the thread does not run.
inline double thread_cpu_s() {
  std::timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Keeps the processor busy for so long, however often the thread is interrupted meanwhile.
inline void spend_cpu_s(double seconds) {
  if (seconds <= 0) return;
  const double end_s = thread_cpu_s() + seconds;
  while (thread_cpu_s() < end_s) {
  }
}

}  // namespace ddpbench
