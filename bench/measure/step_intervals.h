// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What one rank did at which times of one step, and the figures that follow from it.
#pragma once

#include <span>
#include <vector>

#include "parallel/launch/rank_records.h"

namespace ddpbench::bench {

// A half-open interval of time, in seconds.
struct Interval {
  double begin = 0, end = 0;
};
// Returns sorted, disjoint intervals without empty ones.
std::vector<Interval> merge_intervals(std::vector<Interval> intervals);
double total_length(std::span<const Interval> merged);

// The communication of one step on one rank.
struct CommunicationTimes {
  double comm_s = 0;        // length of the union of all communication
  double overlapped_s = 0;  // the part during which compute also ran
  double exposed_s = 0;     // the rest
};
CommunicationTimes communication_times(std::vector<Interval> communication,
                                       std::vector<Interval> compute);

// They may overlap, within a list and between lists. Seconds of one clock.
struct StepIntervals {
  std::vector<Interval> compute;
  std::vector<Interval> communication;  // from when the peers had come
  std::vector<Interval> waiting;        // for the peers
};

// Sets comm_s, comm_overlapped_s, comm_wait_s and comm_wait_exposed_s of `record`. Waiting costs
// nothing while other work goes on. Appends to `intervals.compute`.
void fill_communication(StepIntervals& intervals, launch::StepRecord& record);

}  // namespace ddpbench::bench
