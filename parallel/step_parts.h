// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of a training step that strategies share: phases marked around a replica's work, the check
// that all processes planned the same parameters, and batch norm over all replicas.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/ops/op.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/comm/communicator.h"
#include "parallel/replica.h"
#include "parallel/strategy.h"

namespace ddpbench {

// Where the samples of a replica (or slice) stand in the global batch: replicas take turns in it,
// as the sampler's shards do (datasets/sharded_sampler.h). So one device that takes the whole batch
// has the same samples at the same places. The passes of a step follow each other.
inline ops::SamplePlaces places_of(const StrategyConfig& config, int replica, int pass) {
  return {.first = pass * config.replicas * config.per_device_batch + replica,
          .parts = config.replicas,
          .part = config.per_device_batch};
}

// Runs forward, then loss and output gradient scaled by `grad_scale`, each in its phase.
inline void forward_and_loss(Replica& replica, const StepInput& input,
                             const ops::SamplePlaces& places, float grad_scale,
                             PhaseObserver* observer) {
  {
    const ScopedPhase phase(observer, Phase::forward, replica.stream());
    replica.forward(input.images, places);
  }
  const ScopedPhase phase(observer, Phase::loss, replica.stream());
  replica.loss(input.labels, grad_scale, input.valid_weight);
}

inline void update(Replica& replica, PhaseObserver* observer, float grad_scale = 1) {
  const ScopedPhase phase(observer, Phase::optimizer, replica.stream());
  replica.update(grad_scale);
}

// Queues to += factor * from, for fp32 elements.
inline void add(ops::OpBackend& backend, Stream& stream, const BufferView& to, float factor,
                const void* from) {
  backend.update(stream, {.weights = reinterpret_cast<float*>(to.data),
                          .gradients = static_cast<const float*>(from),
                          .count = to.bytes / sizeof(float),
                          .grad_scale = -factor,
                          .options = {.lr = 1, .momentum = 0}});
}

// A contiguous range of the flat buffer (alignment gaps included). It is complete when all
// parameters before end_parameter are ready.
struct Bucket {
  std::size_t end_parameter = 0;
  std::size_t offset_bytes = 0;
  std::size_t bytes = 0;
};

// What all processes of a job must have in common before step 0.
struct PlanSummary {
  std::uint64_t hash = 0;        // covers parameters, layouts and buckets
  std::uint64_t flat_bytes = 0;  // size of a flat buffer
};

// The replica on device i, as `config` and `context` say and, beyond them, `options`. Before it
// allocates it calls options.admit, which adds what the strategy allocates beside it, then
// context.admit. REQUIRES: `context` outlives the result.
std::unique_ptr<Replica> make_replica(const StrategyConfig& config, const StrategyContext& context,
                                      std::size_t i, ReplicaOptions options);

// Tells `observer` of one transfer of gradients or parameters. `number`: as of a bucket.
void report_transfer(PhaseObserver& observer, std::size_t number, std::size_t bytes, double ready_s,
                     const comm::WorkTimes& times);

// The memory that agree_on_plan takes while it runs.
std::array<PlannedBuffer, 1> planned_summary(Buffer& memory);

// Returns rank 0's summary on every rank. Collective over `world`. `own` is compared with it, and a
// rank that differs throws CommError. `own` is null on servers, which plan nothing. `device`
// supplies the memory for the exchange.
PlanSummary agree_on_plan(comm::Communicator& world, Device& device, const PlanSummary* own);

// Buffers that were registered with a communicator, which deregisters them at the end. A failed
// communicator is ignored: its mappings end with it. The buffers outlive this, so it is the last
// member of who has them.
class Registrations {
 public:
  ~Registrations();
  void add(comm::Communicator& world, const Buffer& buffer);

 private:
  comm::Communicator* world_ = nullptr;
  std::vector<const Buffer*> buffers_;
};

// A whole flat buffer, or a range of it, as fp32 elements.
inline comm::Elements flat_elements(const BufferView& view) {
  return {view.data, view.bytes / sizeof(float), DataType::fp32};
}

// For calls on a step's critical path, which the waiting thread runs itself.
inline comm::CallOptions deferred_after(Stream& stream) {
  return {.after = &stream, .start = comm::Start::deferred};
}

// Queues the replica's part of a broadcast of the graphs' state from `root`, if there is any. Its
// elements may be of any type: a broadcast copies bits.
inline void broadcast_state(comm::Communicator& peers, Replica& replica, int root) {
  const Buffer& state = replica.graph().state();
  if (!state) return;
  peers.broadcast(flat_elements(state.view()), root, deferred_after(replica.stream()))
      .wait(replica.stream());
}

// Joins the statistics that batch norm takes on the replicas (--sync-batch-norm). Each exchange is
// an all-gather, marked as a phase within forward or backward. All of it is exposed: the next
// operation needs the result.
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
