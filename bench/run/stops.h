// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pauses in which a run's processes were stopped (Ctrl-Z), as its figures see them.
#pragma once

#include <span>
#include <vector>

#include "parallel/launch/pause_log.h"
#include "parallel/launch/rank_channel.h"

namespace ddpbench::bench {

// The pauses of a run, divided by what was stopped in them.
struct Stops {
  std::vector<launch::Pause> of_job;         // ranks stood still, or nothing is known of them
  std::vector<launch::Pause> of_supervisor;  // ranks went on: its process alone was stopped
};

// `steps`: of each rank, the records of its timed steps (or of the iterations of `comm`). A step in
// which the job was stopped lasts about as long as the pause, so a pause in which steps are much
// shorter is one of the supervisor.
Stops tell_stops_apart(const std::vector<launch::Pause>& pauses,
                       const std::vector<std::span<const launch::StepRecord>>& steps);

}  // namespace ddpbench::bench
