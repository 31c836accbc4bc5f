// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes one Run of the report from what the ranks of a run left in their channels.
#pragma once

#include <span>

#include "bench/plan/training_job.h"
#include "bench/rank/rank_result.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Works for failed and interrupted runs, too: reports what is there, with a reason for the rest.
report::Run collect_run(const TrainingJob& job, const launch::RankChannels& channels,
                        const launch::SuperviseResult& result);

// What the report says about a failure, without the host: only the ranks know it.
report::ErrorInfo failure_info(const launch::RunFailure& failure);

// Whether the run computed what it should (run_verdict.cpp).

// `results`: of all ranks; those of a run that failed may lack a verification.
report::Verification summarize_verification(const TrainingJob& job,
                                            std::span<const RankResult> results);

// Sets `run.diverged_step`, `run.diverged_tensor`, and the status of a run that did all it was to
// do, or ended with a loss that is not finite, since its settings do not train. `run` has its
// epochs and its verification.
void note_divergence(const TrainingJob& job, std::span<const RankResult> ranks, report::Run& run);

// Whether the run diverged to weights or losses that are not finite, so that its weights were not
// saved. Those of a loss that is only far too large are.
bool has_useless_weights(const report::Run& run);

}  // namespace ddpbench::bench
