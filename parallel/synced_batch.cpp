// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/synced_batch.h"

#include "base/error.h"

namespace ddpbench {

// The elements are of any type: an all-gather copies bits.
void SyncedBatch::gather(Stream& stream, const void* own, void* all, std::size_t bytes) {
  ensure(peers_ != nullptr, "statistics are exchanged without peers");
  const ScopedPhase phase(observer_, Phase::sync_batch_norm, stream);
  const std::size_t count = bytes / sizeof(std::int64_t);
  // The call only reads its input, but Elements have no constant form.
  peers_
      ->all_gather({const_cast<void*>(own), count, DataType::int64},
                   {all, count * count_, DataType::int64},
                   {.after = &stream, .start = comm::Start::deferred})
      .wait(stream);
}

std::unique_ptr<SyncedBatch> make_synced_batch(const StrategyConfig& config,
                                               const StrategyContext& context, std::size_t i) {
  if (!config.sync_batch_norm || config.replicas == 1) return nullptr;
  comm::Communicator* peers = i < context.statistics.size() ? context.statistics[i] : nullptr;
  return std::make_unique<SyncedBatch>(config.replicas, peers, context.observer_of(i));
}

}  // namespace ddpbench
