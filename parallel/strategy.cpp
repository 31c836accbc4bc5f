// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/strategy.h"

#include <numeric>

#include "base/error.h"

namespace ddpbench {
namespace {

std::vector<int> first_integers(int count) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

std::vector<RankPlan> plan_one_rank(const StrategyConfig& config) {
  return {{.replicas = first_integers(config.replicas),
           .shards = first_integers(config.replicas),
           .batch = config.per_device_batch * config.replicas}};
}

std::vector<RankPlan> plan_rank_per_replica(const StrategyConfig& config) {
  std::vector<RankPlan> ranks;
  for (int r = 0; r < config.replicas; ++r) {
    ranks.push_back({.replicas = {r}, .shards = {r}, .batch = config.per_device_batch});
  }
  return ranks;
}

void Strategy::report(PhaseObserver&) {}

void Strategy::serve() { throw InternalError("this strategy has no servers"); }

}  // namespace ddpbench
