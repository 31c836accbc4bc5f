// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes one Run of the report from what the ranks of a run left in their channels.
#pragma once

#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Works for failed and interrupted runs, too: reports what is there, with a reason for the rest.
report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result);

// What the report says about a failure, without the host: only the ranks know it.
report::ErrorInfo failure_info(const launch::RunFailure& failure);

}  // namespace ddpbench::bench
