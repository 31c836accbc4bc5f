// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which leading part of a network runs in micro-batches, and how large they are.
//
// Feature maps of a whole batch pass through memory between two operations; those of a few samples
// stay in the core's cache. Later layers are linear: their weights are what is large, so they take
// the whole batch at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/nn/plan/fusion.h"
#include "kernels/ops/backend.h"

namespace ddpbench::nn {

struct Segment {
  std::size_t nodes = 0;         // the leading ones; 0: no segment
  std::int64_t micro_batch = 0;  // samples; 0: no segment
};

// `requested` as GraphOptions::micro_batch. Whether operations couple samples is known only once
// they are planned: then the planner ends the segment earlier. Throws ConfigError when `requested`
// does not divide `batch`.
Segment choose_segment(const ModelSpec& model, const std::vector<FusedNode>& nodes,
                       const ops::OpBackend& backend, std::int64_t batch,
                       std::optional<std::int64_t> requested);

// The largest divisor of `batch` that is at most `hint`; 0 when that is the batch itself, or so
// small that an operation's fixed cost would outweigh the cache's gain.
std::int64_t choose_micro_batch(std::int64_t batch, std::int64_t hint);

}  // namespace ddpbench::nn
