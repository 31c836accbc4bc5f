// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/step_traffic.h"

#include "base/error.h"
#include "parallel/strategies.h"

namespace ddpbench {

std::vector<comm::LinkCall> step_calls(const StrategyConfig& config, const nn::Graph& graph) {
  const StrategyTraits& traits = strategy_traits(config.strategy);
  if (traits.calls == nullptr || (config.replicas == 1 && !traits.has_servers)) return {};
  std::vector<comm::LinkCall> calls = traits.calls(config, graph);
  for (const std::size_t bytes : graph.exchanges()) {
    calls.push_back(
        {.kind = comm::OperationKind::all_gather, .ranks = config.replicas, .bytes = bytes});
  }
  return calls;
}

std::optional<comm::LinkTraffic> step_traffic(const StrategyConfig& config, const nn::Graph& graph,
                                              const CommBackend& backend,
                                              comm::AllReduceAlgorithm all_reduce) {
  if (backend.add_traffic == nullptr) return std::nullopt;
  comm::LinkTraffic traffic(config.replicas + config.servers);
  for (const comm::LinkCall& call : step_calls(config, graph)) {
    if (!backend.add_traffic(call, all_reduce, traffic)) return std::nullopt;
  }
  return traffic;
}

}  // namespace ddpbench
