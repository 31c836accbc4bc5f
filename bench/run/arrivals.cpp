// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/run/arrivals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "bench/measure/step_intervals.h"

namespace ddpbench::bench {
namespace {

struct Entrance {
  std::size_t ranks = 0;  // that recorded it
  double last_s = 0;
};
using Entrances = std::map<std::pair<std::uint32_t, std::uint32_t>, Entrance>;  // step, bucket

bool is_untold(const launch::BucketRecord& record) { return !record.times.arrived_told; }

Entrances entrances_of(const RankRecords& records) {
  Entrances found;
  for (const auto& rank : records.buckets) {
    for (const launch::BucketRecord& record : rank) {
      Entrance& entrance = found[{record.step, record.times.bucket}];
      entrance.last_s = entrance.ranks == 0 ? record.times.start_s
                                            : std::max(entrance.last_s, record.times.start_s);
      ++entrance.ranks;
    }
  }
  return found;
}

// Tells waiting from communication by the step's buckets, as StepRecorder does where it knows their
// arrival. Compute runs until backward ends; the update waits for all buckets.
void split_again(const std::vector<const launch::BucketRecord*>& buckets,
                 launch::StepRecord& step) {
  StepIntervals intervals;
  intervals.compute = {{step.begin_s, step.backward_end_s}};
  for (const launch::BucketRecord* bucket : buckets) {
    intervals.waiting.push_back({bucket->times.start_s, bucket->times.arrived_s});
    intervals.communication.push_back({bucket->times.arrived_s, bucket->times.end_s});
  }
  fill_communication(intervals, step);
}

void fill_rank(const Entrances& entrances, std::size_t ranks, bool comparable,
               std::vector<launch::BucketRecord>& buckets, std::vector<launch::StepRecord>& steps) {
  std::map<std::uint32_t, std::vector<const launch::BucketRecord*>> by_step;
  std::map<std::uint32_t, bool> untold;
  for (launch::BucketRecord& record : buckets) {
    if (!is_untold(record)) continue;
    const Entrance& entrance = entrances.at({record.step, record.times.bucket});
    by_step[record.step].push_back(&record);
    if (!comparable || entrance.ranks != ranks) {
      untold[record.step] = true;
      continue;
    }
    record.times.arrived_s = std::clamp(entrance.last_s, record.times.start_s,
                                        std::max(record.times.start_s, record.times.end_s));
    record.times.arrived_told = true;
  }
  for (launch::StepRecord& step : steps) {
    if (step.phases_observed == 0 || !by_step.contains(step.step)) continue;
    if (untold.contains(step.step)) {
      step.waits_untold = 1;
    } else {
      split_again(by_step.at(step.step), step);
    }
  }
}

}  // namespace

double fill_arrivals(RankRecords& records, std::size_t workers, double clock_bound_s,
                     bool collectives) {
  const bool any = std::ranges::any_of(
      records.buckets, [](const auto& rank) { return std::ranges::any_of(rank, is_untold); });
  if (!any) return 0;
  const Entrances entrances = entrances_of(records);
  const bool comparable = std::isfinite(clock_bound_s) && collectives;
  for (std::size_t r = 0; r < workers; ++r) {
    fill_rank(entrances, workers, comparable, records.buckets[r], records.steps[r]);
  }
  return comparable ? clock_bound_s : 0;
}

}  // namespace ddpbench::bench
