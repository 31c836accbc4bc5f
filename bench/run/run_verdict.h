// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a run computed what it should: what its ranks found when they compared their weights with
// the reference's, and whether training diverged.
#pragma once

#include <span>

#include "bench/plan/training_job.h"
#include "bench/rank/rank_result.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

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
