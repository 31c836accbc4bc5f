// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The verification of a run: its replicas take a few steps, each from the reference's weights.
// After each one their gradients are compared with the reference's, and their weights with the
// update of these gradients and with each other.
#pragma once

#include <vector>

#include "bench/rank/rank_trainer.h"
#include "bench/rank/reference_weights.h"

namespace ddpbench::bench {

// Takes the verification's steps and stores what they compute in `reference`. Ends early when
// training diverges. REQUIRES: the job is a reference job.
void compute_reference(RankTrainer& rank, ReferenceWeights& reference);

// Compares a hash of the weights over the ranks of the run, which must all start from the same.
// Throws VerificationError on those that differ from rank 0. Collective over the run's workers.
void check_equal_start(RankTrainer& rank);

// Takes the steps that the reference took; returns one result per local replica. Leaves the
// strategy as these steps left it. Throws VerificationError when the starting weights differ.
// Collective.
std::vector<VerificationResult> compare_with_reference(RankTrainer& rank,
                                                       const ReferenceWeights& reference);

// Throws VerificationError when one of `results` is beyond the tolerance, or when the run's
// replicas did not have equal weights after each step. Collective over the run's workers.
void check_verification(RankTrainer& rank, const std::vector<VerificationResult>& results);

}  // namespace ddpbench::bench
