// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a device's loops run: for which instruction set, and split over its OpenMP team. The split
// depends only on count and team size, so that equal runs give equal bits.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/ops/cpu/simd.h"

namespace ddpbench::ops::cpu {

// How a loop runs.
struct Team {
  SimdLevel simd = SimdLevel::portable;
  int threads = 1;
};

// Below this many elements, waking the team (some microseconds) costs more than it saves.
inline constexpr std::int64_t kMinParallelElements = 1 << 14;

// The share of thread `t` of `threads`: [begin, end), whole multiples of `grain`.
struct Share {
  std::int64_t begin, end;
};
inline Share share_of(std::int64_t count, std::int64_t grain, int t, int threads) {
  const std::int64_t grains = ceil_div(count, grain);
  const auto edge = [&](std::int64_t i) { return std::min(count, grains * i / threads * grain); };
  return {edge(t), edge(t + 1)};
}

// Calls body(thread, begin, end) once for each of `threads` shares, empty ones included: no more
// than the team of the calling thread's device has threads. `body` must not throw.
template <typename Body>
void parallel_shares(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  if (threads <= 1) return body(0, std::int64_t{0}, count);
  // All regions have the size of the device's team, which is the calling thread's default. Where
  // one has fewer threads than the one before, libgomp ends those that are left over, and new ones
  // are later bound to the leading thread's core, whose mask they inherit.
  const int team = std::max(threads, omp_get_max_threads());
#pragma omp parallel num_threads(team)
  {
    // The team can be smaller than requested (nested regions, limits): its threads then take turns.
    for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads()) {
      const Share share = share_of(count, grain, t, threads);
      body(t, share.begin, share.end);
    }
  }
}

// Calls body(begin, end) over elements of memory in 64-byte grains of floats; serial when short.
template <typename Body>
void parallel_elements(int threads, std::int64_t count, const Body& body) {
  const int used = count < kMinParallelElements ? 1 : threads;
  parallel_shares(used, count, 16,
                  [&](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
}

}  // namespace ddpbench::ops::cpu
