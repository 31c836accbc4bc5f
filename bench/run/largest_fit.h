// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The largest batch that fits in memory, said where a run of this host's processes does not.
#pragma once

#include <string>

#include "bench/plan/training_job.h"
#include "bench/run/fit_planner.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::bench {

// Says what a search for a run of `job` has found: "the largest that fits is --batch-size=32, ...".
// Empty: the search has found that the run's own batch fits.
std::string largest_fit_words(const TrainingJob& job, const FitRow& row);

// Returns the advice for the message of `failure`, which is of the run of `job` or of its reference
// (with_advice): what a process that plans batches has found, or the command that plans them, where
// that process takes too long or fails. Empty: memory is not why the run failed, or the user has
// interrupted the search.
std::string find_largest_fit(const TrainingJob& job, const launch::RunFailure& failure);

}  // namespace ddpbench::bench
