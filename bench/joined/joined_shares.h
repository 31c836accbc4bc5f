// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What is made once for all ranks of a joined world, or once for those of a host: the decoded data
// set, and the reference to verify against.
#pragma once

#include <optional>

#include "bench/joined/joined_peers.h"
#include "bench/plan/training_job.h"
#include "bench/rank/reference_weights.h"
#include "bench/run/progress.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model.h"
#include "kernels/runtime/shared_memory.h"

namespace ddpbench::bench {

// The lowest rank of each host decodes the data set, and the others of the host map it. Throws
// ConfigError when a host has other data than rank 0's.
SharedMemory share_dataset(JoinedPeers& peers, data::DatasetSource& source);

struct ReferenceInputs {
  const TrainingJob& job;
  const nn::ModelSpec& model;
  const SharedMemory& dataset;
  Progress& progress;
  double limit_s = 0;  // of each wait for another rank
};

// Rank 0 runs the reference in a process of its own. Its host maps what it computed, and the lowest
// rank of each other host receives it by value, for all of that host. nullopt in a dry run, where
// it is only set up. Throws the failure of the reference as one of this rank.
std::optional<ReferenceWeights> share_reference(JoinedPeers& peers, const ReferenceInputs& inputs);

}  // namespace ddpbench::bench
