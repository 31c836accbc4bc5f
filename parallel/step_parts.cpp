// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/step_parts.h"

#include "base/error.h"

namespace ddpbench {

std::unique_ptr<Replica> make_replica(const StrategyConfig& config, const StrategyContext& context,
                                      std::size_t i, ReplicaOptions options) {
  if (options.batch == 0) options.batch = config.per_device_batch;
  options.seed = config.seed;
  options.optimizer = config.optimizer;
  options.scales_loss = config.scales_loss;
  options.initialize = context.initialize;
  options.admit = [&context, i, add = std::move(options.admit)](const nn::ParameterPlan& plan,
                                                                MemoryNeeds& needs) {
    if (add) add(plan, needs);
    if (context.admit) context.admit(i, needs);
  };
  return std::make_unique<Replica>(*context.model, *context.devices[i], *context.backends[i],
                                   options);
}

void report_transfer(PhaseObserver& observer, std::size_t number, std::size_t bytes, double ready_s,
                     const comm::WorkTimes& times) {
  observer.bucket({.bucket = static_cast<std::uint32_t>(number),
                   .bytes = bytes,
                   .ready_s = ready_s,
                   .start_s = times.start_s,
                   .arrived_s = times.arrived_s,
                   .end_s = times.end_s,
                   .arrived_told = times.arrived_told});
}

std::array<PlannedBuffer, 1> planned_summary(Buffer& memory) {
  return {{{&memory, MemoryCategory::communication, sizeof(PlanSummary), Sharing::mappable}}};
}

PlanSummary agree_on_plan(comm::Communicator& world, Device& device, const PlanSummary* own) {
  PlanSummary summary = own != nullptr ? *own : PlanSummary{};
  const BufferView host{reinterpret_cast<std::byte*>(&summary), sizeof(summary)};
  Buffer memory;
  allocate(device, planned_summary(memory));
  const auto stream = device.make_stream();
  device.copy(*stream, memory.view().slice(0, sizeof(summary)), host);
  world
      .broadcast({memory.data(), sizeof(summary) / sizeof(std::int64_t), DataType::int64}, 0,
                 {.after = stream.get(), .start = comm::Start::deferred})
      .wait(*stream);
  device.copy(*stream, host, memory.view().slice(0, sizeof(summary)));
  stream->synchronize();
  world.check();  // an abort, too, ends the wait: nothing was received
  if (own != nullptr && (own->hash != summary.hash || own->flat_bytes != summary.flat_bytes)) {
    throw CommError(fmt::format(
        "rank {} of {} planned different parameters, layouts or buckets from rank 0 (hash "
        "{:016x} against {:016x}, {} against {} bytes): their processors or library "
        "versions differ; they cannot train together",
        world.rank(), world.size(), own->hash, summary.hash, own->flat_bytes, summary.flat_bytes));
  }
  return summary;
}

void Registrations::add(comm::Communicator& world, const Buffer& buffer) {
  world_ = &world;
  world.register_buffer(buffer);
  buffers_.push_back(&buffer);
}

Registrations::~Registrations() {
  for (const Buffer* buffer : buffers_) {
    try {
      world_->deregister_buffer(*buffer);
    } catch (const Error&) {
      // A failed communicator cannot agree any more; its own end unmaps the buffer.
    }
  }
}

// The elements are of any type: an all-gather copies bits.
void SyncedBatch::gather(Stream& stream, const void* own, void* all, std::size_t bytes) {
  ensure(peers_ != nullptr, "statistics are exchanged without peers");
  const ScopedPhase phase(observer_, Phase::sync_batch_norm, stream);
  const std::size_t count = bytes / sizeof(std::int64_t);
  // The call only reads its input, but Elements have no constant form.
  peers_
      ->all_gather({const_cast<void*>(own), count, DataType::int64},
                   {all, count * count_, DataType::int64}, deferred_after(stream))
      .wait(stream);
}

std::unique_ptr<SyncedBatch> make_synced_batch(const StrategyConfig& config,
                                               const StrategyContext& context, std::size_t i) {
  if (!config.sync_batch_norm || config.replicas == 1) return nullptr;
  comm::Communicator* peers = i < context.statistics.size() ? context.statistics[i] : nullptr;
  return std::make_unique<SyncedBatch>(config.replicas, peers, context.observer_of(i));
}

}  // namespace ddpbench
