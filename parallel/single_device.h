// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies of one device, without communication.
//
// `single`, the baseline of every comparison, computes one replica's batch a step. `reference`,
// which strategies are verified against, computes the global batch of `replicas` slices in rank
// order and accumulates their gradients. So it needs one device's memory, and per-replica
// statistics stay those of the replica.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

class SingleDevice final : public Strategy {
 public:
  explicit SingleDevice(StrategyConfig config) : config_(std::move(config)) {}
  // `reference`: one process on one device, for any number of replicas.
  static std::vector<ProcessPlan> plan(const StrategyConfig& config);
  // `single`. Throws ConfigError when there are several replicas.
  static std::vector<ProcessPlan> plan_single(const StrategyConfig& config);

  void setup(const StrategyContext& context) override;
  void step(const StepInput& input) override;
  void reset() override { replica_->reset(); }
  std::vector<Replica*> replicas() override { return {replica_.get()}; }

 private:
  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<Replica> replica_;
};

}  // namespace ddpbench
