// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What is made once for all ranks of a joined world, or once for those of a host: the decoded data
// set, and the reference to verify against.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/math.h"
#include "bench/joined/joined_peers.h"
#include "bench/plan/training_job.h"
#include "bench/rank/reference_weights.h"
#include "bench/run/launch_run.h"
#include "datasets/dataset.h"
#include "kernels/nn/model/model.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/comm/store/store.h"

namespace ddpbench::bench {

// Sends memory to other hosts through the store, which keeps a few pieces of it at a time.

struct PieceOptions {
  std::size_t piece_bytes = 4 * kMiB;
  std::size_t ahead = 4;   // pieces that the store keeps at most
  double timeout_s = 300;  // of each wait for another process
};

// Returns when all `receivers` have received all of it. A `key` may be used once a store. Throws
// CommTimeout when a receiver does not take a piece.
void send_pieces(comm::Store& store, const std::string& key, std::span<const std::byte> bytes,
                 int receivers, const PieceOptions& options);

// Receives what send_pieces sends, with the same options. Throws CommError when it has another
// length or a piece arrives damaged, CommTimeout when none comes.
void receive_pieces(comm::Store& store, const std::string& key, std::span<std::byte> bytes,
                    int receivers, const PieceOptions& options);

// The lowest rank of each host decodes the data set, and the others of the host map it. Throws
// ConfigError when a host has other data than rank 0's.
SharedMemory share_dataset(JoinedPeers& peers, data::DatasetSource& source, Progress& progress);

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
