// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From what the ranks of a run left in their channels to one Run of the report.
#pragma once

#include <optional>

#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Also of a failed or interrupted run: what is there is reported, what is not has a reason.
report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result);

// What the report says of a failure; without a host, which the ranks know.
report::ErrorInfo failure_info(const launch::RunFailure& failure);

}  // namespace ddpbench::bench
