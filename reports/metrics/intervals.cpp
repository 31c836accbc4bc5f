// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sets of time intervals, and what they say about communication: overlapped and exposed.
#include <algorithm>

#include "reports/metrics/metrics.h"

namespace ddpbench::report {

std::vector<Interval> merge_intervals(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return !(i.begin < i.end); });
  std::ranges::sort(intervals, {}, &Interval::begin);
  std::vector<Interval> merged;
  for (const Interval& next : intervals) {
    if (!merged.empty() && next.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, next.end);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

double total_length(std::span<const Interval> merged) {
  double length = 0;
  for (const Interval& interval : merged) length += interval.end - interval.begin;
  return length;
}

double intersection_length(std::span<const Interval> a, std::span<const Interval> b) {
  double length = 0;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const double begin = std::max(a[i].begin, b[j].begin);
    const double end = std::min(a[i].end, b[j].end);
    length += std::max(0.0, end - begin);
    // The one that ends first can meet nothing more.
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return length;
}

CommunicationTimes communication_times(std::vector<Interval> communication,
                                       std::vector<Interval> compute) {
  const auto merged = merge_intervals(std::move(communication));
  CommunicationTimes times;
  times.comm_s = total_length(merged);
  // Both are sums of the same pieces in other orders: rounding must not make a part exceed the
  // whole.
  times.overlapped_s =
      std::min(times.comm_s, intersection_length(merged, merge_intervals(std::move(compute))));
  times.exposed_s = times.comm_s - times.overlapped_s;
  return times;
}

Figure overlap_ratio(double comm_s, double overlapped_s) {
  if (!(comm_s > 0)) return Figure::missing("no communication");
  return Figure::of(overlapped_s / comm_s);
}

}  // namespace ddpbench::report
