// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The host's clocks. Device::now_s reads a device's clock. Strategies read no clock
// (scripts/check_includes.py).
#pragma once

#include <chrono>
#include <ctime>
#include <string>

namespace ddpbench {

// CLOCK_MONOTONIC in seconds. It never goes back and is the same for all processes of a host.
inline double steady_s() {
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now.time_since_epoch()).count();
}

// A time of the wall clock in UTC, formatted by strftime(3); the current one, if not given.
inline std::string utc_time(const char* format, std::time_t time = std::time(nullptr)) {
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &utc)};
}

// CLOCK_THREAD_CPUTIME_ID in seconds: it stands still while the calling thread does not run.
inline double thread_cpu_s() {
  std::timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Keeps the processor busy for so long, however often the calling thread is interrupted meanwhile.
inline void spend_cpu_s(double seconds) {
  if (seconds <= 0) return;
  const double end_s = thread_cpu_s() + seconds;
  while (thread_cpu_s() < end_s) {
  }
}

}  // namespace ddpbench
