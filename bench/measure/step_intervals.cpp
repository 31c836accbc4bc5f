// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_intervals.h"

#include <algorithm>
#include <cstddef>

namespace ddpbench::bench {
namespace {

// The length of the intersection of two merged sets.
double intersection_length(std::span<const Interval> a, std::span<const Interval> b) {
  double length = 0;
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    const double begin = std::max(a[i].begin, b[j].begin);
    const double end = std::min(a[i].end, b[j].end);
    length += std::max(0.0, end - begin);
    // The interval that ends first cannot meet another one.
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return length;
}

}  // namespace

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

CommunicationTimes communication_times(std::vector<Interval> communication,
                                       std::vector<Interval> compute) {
  const auto merged = merge_intervals(std::move(communication));
  CommunicationTimes times;
  times.comm_s = total_length(merged);
  // Both sum the same pieces in different orders: rounding must not make the part exceed the whole.
  times.overlapped_s =
      std::min(times.comm_s, intersection_length(merged, merge_intervals(std::move(compute))));
  times.exposed_s = times.comm_s - times.overlapped_s;
  return times;
}

void fill_communication(StepIntervals& intervals, launch::StepRecord& record) {
  auto& [compute, communication, waiting] = intervals;
  const auto times = communication_times(communication, compute);
  record.comm_s = times.comm_s;
  record.comm_overlapped_s = times.overlapped_s;
  record.comm_wait_s = total_length(merge_intervals(waiting));
  compute.insert(compute.end(), communication.begin(), communication.end());
  record.comm_wait_exposed_s = communication_times(waiting, compute).exposed_s;
}

}  // namespace ddpbench::bench
