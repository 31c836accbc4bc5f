// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sums up for the report what the ranks of a run found when they compared their weights with the
// reference's.
#pragma once

#include <span>

#include "bench/plan/training_job.h"
#include "bench/rank/rank_result.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// `results`: of all ranks; those of a run that failed may lack a verification.
report::Verification summarize_verification(const TrainingJob& job,
                                            std::span<const RankResult> results);

}  // namespace ddpbench::bench
