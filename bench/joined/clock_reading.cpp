// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/clock_reading.h"

#include <cstdint>

#include "base/clock.h"

namespace ddpbench::bench {
namespace {

constexpr int kRoundTrips = 50, kFewestRoundTrips = 3;
constexpr double kLongest_s = 0.5;
constexpr double kNanosecond_s = 1e-9;

}  // namespace

ClockReading read_clock(comm::Store& store) {
  const double begin_s = steady_s();
  std::int64_t shortest_ns = INT64_MAX;
  ClockReading reading;
  for (int i = 0; i < kRoundTrips; ++i) {
    if (i >= kFewestRoundTrips && steady_s() - begin_s > kLongest_s) break;
    const std::int64_t asked_ns = comm::own_clock_ns();
    const std::int64_t told_ns = store.clock_ns();
    const std::int64_t heard_ns = comm::own_clock_ns();
    if (heard_ns - asked_ns >= shortest_ns) continue;
    shortest_ns = heard_ns - asked_ns;
    // Differences of whole numbers: clocks of hosts that run for long have no digits to spare.
    const std::int64_t half_ns = shortest_ns / 2;
    reading.at_s = static_cast<double>(asked_ns + half_ns) * kNanosecond_s;
    reading.offset_s = static_cast<double>(asked_ns + half_ns - told_ns) * kNanosecond_s;
    reading.bound_s = static_cast<double>(half_ns + 1) * kNanosecond_s;
  }
  return reading;
}

}  // namespace ddpbench::bench
