// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank did at which times of one step, and the figures that follow from it.
#pragma once

#include <vector>

#include "parallel/launch/rank_channel.h"
#include "reports/metrics/metrics.h"

namespace ddpbench::bench {

// They may overlap, within a list and between lists. Seconds of one clock.
struct StepIntervals {
  std::vector<report::Interval> compute;
  std::vector<report::Interval> communication;  // from when the peers had come
  std::vector<report::Interval> waiting;        // for the peers

  void clear() {
    compute.clear();
    communication.clear();
    waiting.clear();
  }
};

// Sets comm_s, comm_overlapped_s, comm_wait_s and comm_wait_exposed_s of `record`. Waiting costs
// nothing while other work goes on. Appends to `intervals.compute`.
inline void fill_communication(StepIntervals& intervals, launch::StepRecord& record) {
  auto& [compute, communication, waiting] = intervals;
  const auto times = report::communication_times(communication, compute);
  record.comm_s = times.comm_s;
  record.comm_overlapped_s = times.overlapped_s;
  record.comm_wait_s = report::total_length(report::merge_intervals(waiting));
  compute.insert(compute.end(), communication.begin(), communication.end());
  record.comm_wait_exposed_s = report::communication_times(waiting, compute).exposed_s;
}

}  // namespace ddpbench::bench
