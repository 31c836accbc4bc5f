// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/step_intervals.h"

namespace ddpbench::bench {

void StepIntervals::clear() {
  compute.clear();
  communication.clear();
  waiting.clear();
}

void fill_communication(StepIntervals& intervals, launch::StepRecord& record) {
  auto& [compute, communication, waiting] = intervals;
  const auto times = report::communication_times(communication, compute);
  record.comm_s = times.comm_s;
  record.comm_overlapped_s = times.overlapped_s;
  record.comm_wait_s = report::total_length(report::merge_intervals(waiting));
  compute.insert(compute.end(), communication.begin(), communication.end());
  record.comm_wait_exposed_s = report::communication_times(waiting, compute).exposed_s;
}

}  // namespace ddpbench::bench
