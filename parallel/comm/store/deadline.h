// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Deadline: the moment at which a blocking wait gives up.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddpbench::comm {

// Blocking waits throw CommTimeout after it.
using Deadline = std::chrono::steady_clock::time_point;

inline Deadline deadline_after(double seconds) {
  // A year is as good as for ever and does not overflow the clock; NaN counts as passed.
  constexpr double kYear_s = 365.0 * 86400;
  const double bounded = seconds > 0 ? std::min(seconds, kYear_s) : 0;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(bounded));
}

}  // namespace ddpbench::comm
