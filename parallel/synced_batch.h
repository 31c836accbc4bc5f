// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// SyncedBatch: joins the statistics that batch norm takes on the replicas (--sync-batch-norm).
#pragma once

#include "kernels/ops/batch_parts.h"
#include "kernels/runtime/phase.h"
#include "parallel/comm/communicator.h"
#include "parallel/strategy.h"

namespace ddpbench {

// Each exchange is an all-gather, marked as a phase within forward or backward. All of it is
// exposed: the next operation needs the result.
class SyncedBatch final : public ops::BatchParts {
 public:
  // `peers` has one rank a replica. Nothing else uses it, so that no exchange waits behind
  // gradients. It may be null where no step is taken. Both outlive this; `observer` may be null.
  SyncedBatch(int replicas, comm::Communicator* peers, PhaseObserver* observer)
      : count_(static_cast<std::size_t>(replicas)), peers_(peers), observer_(observer) {}

  std::size_t count() const override { return count_; }
  void gather(Stream& stream, const void* own, void* all, std::size_t bytes) override;

 private:
  std::size_t count_;
  comm::Communicator* peers_;
  PhaseObserver* observer_;
};

// For replica `i` of a process; null where the configuration or the number of replicas asks for
// none.
std::unique_ptr<SyncedBatch> make_synced_batch(const StrategyConfig& config,
                                               const StrategyContext& context, std::size_t i);

}  // namespace ddpbench
