// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `single`: one device, no communication. The baseline of every comparison.
#pragma once

#include <memory>

#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

class SingleDevice final : public Strategy {
 public:
  explicit SingleDevice(StrategyConfig config) : config_(std::move(config)) {}

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
