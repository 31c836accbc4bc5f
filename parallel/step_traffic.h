// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the participants of a strategy (devices, then servers) send each other in one step, from its
// plan. Parameters are those of one replica's graph.
#pragma once

#include <optional>
#include <vector>

#include "kernels/nn/graph.h"
#include "parallel/comm/link_call.h"
#include "parallel/comm_backends.h"
#include "parallel/strategy.h"

namespace ddpbench {

// The calls of one step, in any order; none on one device.
std::vector<comm::LinkCall> step_calls(const StrategyConfig& config, const nn::Graph& graph);

// What the participants send each other in one step; nullopt where the backend does not tell.
// `all_reduce` is the algorithm that its communicators are told.
std::optional<comm::LinkTraffic> step_traffic(const StrategyConfig& config, const nn::Graph& graph,
                                              const CommBackend& backend,
                                              comm::AllReduceAlgorithm all_reduce);

}  // namespace ddpbench
