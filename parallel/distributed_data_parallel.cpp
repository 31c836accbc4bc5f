// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddp`: one rank per device, a process or (devices_per_process) a thread of one. Gradients are
// averaged bucket by bucket with all-reduce while backward still runs, and every rank updates its
// own copy (Li et al., VLDB 2020).
//
// Wire, per rank and step: 2 (n-1)/n S bytes for S bytes of gradients (all-reduce).
//
// With broadcast_buffers the state of the graphs (running statistics) is sent from rank 0 before
// each forward, so that of rank 0 survives; without, each rank keeps its own.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

class DistributedDataParallel final : public Strategy {
 public:
  explicit DistributedDataParallel(StrategyConfig config) : config_(std::move(config)) {}

  ~DistributedDataParallel() override {
    if (context_.world != nullptr && replica_) {
      deregister_quietly(*context_.world, replica_->graph().gradients());
    }
  }

  void setup(const StrategyContext& context) override {
    context_ = context;
    Device& device = *context.devices[0];
    const auto add = [this](const nn::ParameterPlan&, MemoryNeeds& needs) {
      if (context_.world == nullptr) return;
      Buffer summary;
      needs.add(planned_summary(summary));
    };
    synced_ = make_synced_batch(config_, context_, 0);
    replica_ = make_replica(
        config_, context_, 0,
        {{.parts = synced_.get(), .gradient_sharing = Sharing::mappable, .admit = add}});
    const nn::ParameterPlan& plan = replica_->graph().plan();
    auto buckets = plan_buckets(plan, config_.first_bucket_bytes, config_.bucket_cap_bytes);
    works_.resize(buckets.size());
    std::uint64_t hash = plan.hash;
    for (const Bucket& bucket : buckets) {
      ready_events_.push_back(device.make_event());
      hash = combine_hash(combine_hash(hash, bucket.offset_bytes), bucket.bytes);
    }
    bucketer_.emplace(std::move(buckets), [this](std::size_t b) { start_bucket(b); });
    ready_ = [this](std::size_t parameter) { bucketer_->ready(parameter); };
    if (context.world != nullptr) {
      const PlanSummary own{hash, plan.flat_bytes};
      agree_on_plan(*context.world, device, &own);
      context.world->register_buffer(replica_->graph().gradients());
    }
    reset();
  }

  void step(const StepInput& input) override {
    if (shares_state()) {
      const ScopedPhase phase(context_.observer, Phase::replicate, replica_->stream());
      broadcast_state(*context_.world, *replica_, kStateRoot);
    }
    const float scale = 1.0f / static_cast<float>(config_.per_device_batch);
    forward_and_loss(*replica_, input, places_of(config_, rank()), scale, context_.observer);
    bucketer_->begin_pass();
    {
      const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
      replica_->backward(ready_);
    }
    if (context_.world != nullptr) {
      const ScopedPhase phase(context_.observer, Phase::comm_wait, replica_->stream());
      for (const comm::Work& work : works_) work.wait(replica_->stream());
    }
    if (!config_.faults.is_stale(rank(), step_)) update(*replica_, context_.observer);
    replica_->end_step();
    ++step_;
  }

  void report(PhaseObserver& observer) override {
    if (context_.world == nullptr) return;
    for (std::size_t b = 0; b < works_.size(); ++b) {
      if (static_cast<int>(b) == config_.faults.missing_bucket) continue;
      report_transfer(observer, b, bucketer_->buckets()[b].bytes, ready_events_[b]->time_s(),
                      works_[b].times());
    }
  }

  void reset() override {
    replica_->reset();
    step_ = 0;
  }
  void assign_parameters(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
  }
  void assign_state(const std::function<void(nn::Graph&)>& assign) override {
    if (!shares_state() || context_.world->rank() == kStateRoot) assign(replica_->graph());
  }
  void publish() override {
    if (shares_state()) broadcast_state(*context_.world, *replica_, kStateRoot);
  }
  std::vector<Replica*> replicas() override { return {replica_.get()}; }

 private:
  static constexpr int kStateRoot = 0;

  bool shares_state() const { return config_.broadcast_buffers && context_.world != nullptr; }
  int rank() const { return context_.world == nullptr ? 0 : context_.world->rank(); }

  // Called in bucket order, after the bucket's last gradient was queued.
  void start_bucket(std::size_t b) {
    if (context_.world == nullptr) return;
    Stream& stream = replica_->stream();
    stream.record(*ready_events_[b]);
    if (static_cast<int>(b) == config_.faults.missing_bucket) return;
    const Bucket& bucket = bucketer_->buckets()[b];
    // The last bucket has nothing left to hide behind. It, and each without overlap, runs on this
    // thread when that waits, which spares a hand-over to the communication thread.
    const bool hidden = config_.overlap && b + 1 < bucketer_->buckets().size();
    works_[b] = context_.world->all_reduce(
        flat_elements(
            replica_->graph().gradients().view().slice(bucket.offset_bytes, bucket.bytes)),
        config_.faults.sum_for_average ? comm::ReduceOp::sum : comm::ReduceOp::average,
        {.after = &stream,
         .start = hidden ? comm::Start::now : comm::Start::deferred,
         .bucket = static_cast<int>(b)});
  }

  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<SyncedBatch> synced_;  // null where nothing is exchanged
  std::unique_ptr<Replica> replica_;
  std::optional<GradientBucketer> bucketer_;
  nn::GradientReady ready_;                           // made once: no allocation in a step
  std::vector<comm::Work> works_;                     // [bucket]
  std::vector<std::unique_ptr<Event>> ready_events_;  // [bucket]
  std::int64_t step_ = 0;                             // steps since the last reset
};

}  // namespace

std::unique_ptr<Strategy> make_distributed_data_parallel(const StrategyConfig& config) {
  return std::make_unique<DistributedDataParallel>(config);
}

}  // namespace ddpbench
