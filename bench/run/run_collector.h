// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes one Run of the report from what the ranks of a run left in their channels.
#pragma once

#include <span>
#include <vector>

#include "bench/plan/training_job.h"
#include "parallel/launch/pause_log.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The pauses of a run, divided by what was stopped in them.
struct Stops {
  std::vector<launch::Pause> of_job;         // ranks stood still, or nothing is known of them
  std::vector<launch::Pause> of_supervisor;  // ranks went on: its process alone was stopped
};

// `steps`: of each rank, the records of its timed steps (or of the iterations of `comm`). A step in
// which the job was stopped lasts about as long as the pause, so a pause in which a whole step lies
// is one of the supervisor.
Stops tell_stops_apart(const std::vector<launch::Pause>& pauses,
                       const std::vector<std::span<const launch::StepRecord>>& steps);

// Works for failed and interrupted runs, too: reports what is there, with a reason for the rest.
report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result);

// What the report says about a failure, without the host: only the ranks know it.
report::ErrorInfo failure_info(const launch::RunFailure& failure);

}  // namespace ddpbench::bench
