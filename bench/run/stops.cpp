// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/stops.h"

#include <algorithm>
#include <iterator>

namespace ddpbench::bench {
namespace {

// Whether ranks went on in the pause, by the moments at which their steps began and ended, in
// order.
bool went_on(const std::vector<double>& edges, const launch::Pause& pause) {
  // The looks between which a stopped job lies come up to about a second before and after it, and
  // short steps may fit there.
  constexpr double kLateLook_s = 1, kMostOfIt = 0.75;
  const auto first = std::ranges::lower_bound(edges, pause.begin_s);
  const auto last = std::ranges::upper_bound(edges, pause.end_s);
  if (first == last) return false;
  // No steps are to be expected before the first of the run and after its last.
  const double begin_s = first == edges.begin() ? *first : pause.begin_s;
  const double end_s = last == edges.end() ? *std::prev(last) : pause.end_s;
  double longest_s = std::max(*first - begin_s, end_s - *std::prev(last));
  for (auto edge = first; edge + 1 < last; ++edge) {
    longest_s = std::max(longest_s, *(edge + 1) - *edge);
  }
  return end_s - begin_s > kLateLook_s && longest_s < kMostOfIt * (end_s - begin_s);
}

}  // namespace

Stops tell_stops_apart(const std::vector<launch::Pause>& pauses,
                       const std::vector<std::span<const launch::StepRecord>>& steps) {
  std::vector<double> edges;
  for (const auto& rank : steps) {
    for (const launch::StepRecord& step : rank)
      edges.insert(edges.end(), {step.begin_s, step.end_s});
  }
  std::ranges::sort(edges);
  Stops stops;
  for (const launch::Pause& pause : pauses) {
    (went_on(edges, pause) ? stops.of_supervisor : stops.of_job).push_back(pause);
  }
  return stops;
}

}  // namespace ddpbench::bench
