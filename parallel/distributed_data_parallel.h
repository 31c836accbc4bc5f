// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddp`: one process per device. Gradients are averaged bucket by bucket with all-reduce while
// backward still runs, and every rank updates its own copy (Li et al., VLDB 2020).
//
// Wire, per rank and step: 2 (n-1)/n S bytes for S bytes of gradients (all-reduce).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/gradient_bucketer.h"
#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

class DistributedDataParallel final : public Strategy {
 public:
  explicit DistributedDataParallel(StrategyConfig config) : config_(std::move(config)) {}
  ~DistributedDataParallel() override;

  void setup(const StrategyContext& context) override;
  void step(const StepInput& input) override;
  void report(PhaseObserver& observer) override;
  void reset() override;
  std::vector<Replica*> replicas() override { return {replica_.get()}; }

 private:
  void start_bucket(std::size_t bucket);
  void wait_for_buckets();
  bool keeps_stale_parameters() const;

  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<Replica> replica_;
  std::optional<GradientBucketer> bucketer_;
  nn::GradientReady ready_;                           // made once: no allocation in a step
  std::vector<comm::Work> works_;                     // [bucket]
  std::vector<std::unique_ptr<Event>> ready_events_;  // [bucket]
  std::int64_t step_ = 0;                             // steps since the last reset
};

}  // namespace ddpbench
