// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verification of a run: its replicas take a few steps, and their weights are compared with the
// reference's, and with each other.
#pragma once

#include <vector>

#include "bench/rank/rank_trainer.h"
#include "bench/rank/reference_weights.h"

namespace ddpbench::bench {

// Takes the verification's steps and stores the weights before and after them in `reference`.
// REQUIRES: the job is a reference's.
void compute_reference(RankTrainer& rank, ReferenceWeights& reference);

// Takes the verification's steps; returns what the comparison found, one result a local replica.
// Leaves the strategy as these steps left it. Throws VerificationError when the starting weights
// differ.
std::vector<VerificationResult> compare_with_reference(RankTrainer& rank,
                                                       const ReferenceWeights& reference);

// Throws VerificationError when one of `results` is beyond the tolerance, or when the replicas of
// the run do not have equal weights. Collective over the workers of the run.
void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results);

}  // namespace ddpbench::bench
