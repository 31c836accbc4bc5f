// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What strategies are verified against: one device computes the global batch as `replicas` slices
// in rank order and accumulates their gradients, so that it needs one device's memory and
// per-replica statistics stay those of the replica.
#pragma once

#include <memory>

#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

class AccumulatedReference final : public Strategy {
 public:
  explicit AccumulatedReference(StrategyConfig config) : config_(std::move(config)) {}

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
