// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `zero1`: data parallelism whose optimizer state is in parts (ZeRO stage 1: Rajbhandari et al.,
// SC 2020; PyTorch's ZeroRedundancyOptimizer). Of every bucket each rank owns an equal part. The
// gradients of a bucket are averaged to the owners by reduce-scatter while backward runs, each rank
// updates what it owns, and an all-gather brings the new weights to all.
//
// Wire, per rank and step: (n-1)/n S bytes of gradients and as many of weights, as ddp; memory: an
// n-th of the optimizer's state.
//
// A bucket is cut into n parts of whole cache lines. What is left over, less than n lines, goes to
// the next bucket; the tail of the last one is all-reduced, and updated everywhere.
#include <algorithm>
#include <memory>
#include <vector>

#include "parallel/gradient_exchange.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

std::vector<Bucket> plan_divisible(const std::vector<Bucket>& buckets, std::size_t flat_bytes,
                                   std::size_t unit) {
  std::vector<Bucket> divisible;
  std::size_t begin = 0, last_parameter = 0;
  for (const Bucket& bucket : buckets) {
    last_parameter = bucket.end_parameter;
    const std::size_t bytes = (bucket.offset_bytes + bucket.bytes - begin) / unit * unit;
    if (bytes == 0) continue;
    divisible.push_back({last_parameter, begin, bytes});
    begin += bytes;
  }
  if (begin < flat_bytes) divisible.push_back({last_parameter, begin, flat_bytes - begin});
  return divisible;
}

class Sharded final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void adapt(ReplicaOptions& options) const override {
    options.gradient_sharing = options.weight_sharing = Sharing::mappable;
    options.updates = false;
  }

  void plan(const nn::ParameterPlan& parameters, MemoryNeeds& needs) override {
    Buffer summary;
    needs.add(planned_summary(summary));
    needs.add(planned_state(plan_for(parameters)));
  }

  void finish(bool) override { wait_for_started(Phase::comm_wait); }

  // A stale rank leaves old weights in the parts that it owns, for all.
  void update(float grad_scale, bool stale) override {
    if (!stale) update_own(grad_scale);
    const ScopedPhase phase(context_.observer, Phase::comm_wait, replica_->stream());
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      gathered_[b] = gather(b, replica_->graph().weights(), static_cast<int>(buckets().size() + b));
    }
    for (const comm::Work& work : gathered_) work.wait(replica_->stream());
  }

  // Tells the buckets of gradients, then those of weights, numbered on.
  void report(PhaseObserver& observer) override {
    GradientExchange::report(observer);
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      const comm::WorkTimes times = gathered_[b].times();
      if (is_tail(b)) continue;
      report_transfer(observer, buckets().size() + b, buckets()[b].bytes, times.start_s, times);
    }
  }

  void parameters_set(bool to_step_0) override {
    if (to_step_0 && state_) fill_with_zeros(replica_->device(), replica_->stream(), state_);
  }

  void fetch_gradients() override {
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      gather(b, replica_->graph().gradients(), -1).wait(replica_->stream());
    }
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world().size()); }
  std::size_t unit() const { return ranks() * nn::kParameterAlignment; }
  bool is_tail(std::size_t b) const { return buckets()[b].bytes % unit() != 0; }

  std::vector<Bucket> plan_for(const nn::ParameterPlan& parameters) const {
    return plan_divisible(
        plan_buckets(parameters, config_.first_bucket_bytes, config_.bucket_cap_bytes),
        parameters.flat_bytes, unit());
  }

  std::size_t own_bytes(const Bucket& bucket) const {
    return bucket.bytes % unit() == 0 ? bucket.bytes / ranks() : bucket.bytes;
  }
  std::vector<PlannedBuffer> planned_state(const std::vector<Bucket>& buckets) {
    owned_ = 0;
    for (const Bucket& bucket : buckets) owned_ += own_bytes(bucket) / sizeof(float);
    return {{&state_, MemoryCategory::optimizer,
             ops::optimizer_state_bytes(config_.optimizer, owned_)}};
  }

  std::vector<Bucket> open() override {
    const nn::Graph& graph = replica_->graph();
    std::vector<Bucket> buckets = plan_for(graph.plan());
    allocate(replica_->device(), planned_state(buckets));
    agree_on(buckets);
    registered_.add(world(), graph.gradients());
    registered_.add(world(), graph.weights());
    gathered_.resize(buckets.size());
    return buckets;
  }

  BufferView whole(const Buffer& flat, std::size_t b) const {
    return flat.view().slice(buckets()[b].offset_bytes, buckets()[b].bytes);
  }
  // This rank's part; of the tail, all.
  BufferView own(const Buffer& flat, std::size_t b) const {
    const std::size_t bytes = own_bytes(buckets()[b]);
    const auto part = is_tail(b) ? 0 : static_cast<std::size_t>(world().rank());
    return whole(flat, b).slice(part * bytes, bytes);
  }

  comm::Work start(std::size_t b, const comm::CallOptions& options) override {
    if (static_cast<int>(b) == config_.faults.missing_bucket) return {};
    const Buffer& gradients = replica_->graph().gradients();
    const comm::Elements all = flat_elements(whole(gradients, b));
    if (is_tail(b)) return world().all_reduce(all, comm::ReduceOp::average, options);
    return world().reduce_scatter(all, flat_elements(own(gradients, b)), comm::ReduceOp::average,
                                  options);
  }

  // Brings every rank's part of a bucket of `flat` to all; nothing where all have it.
  comm::Work gather(std::size_t b, const Buffer& flat, int bucket) {
    if (is_tail(b)) return {};
    return world().all_gather(
        flat_elements(own(flat, b)), flat_elements(whole(flat, b)),
        {.after = &replica_->stream(), .start = comm::Start::deferred, .bucket = bucket});
  }

  void update_own(float grad_scale) {
    const ScopedPhase phase(context_.observer, Phase::optimizer, replica_->stream());
    const nn::Graph& graph = replica_->graph();
    std::size_t first = 0;
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      const BufferView weights = own(graph.weights(), b);
      const std::size_t count = weights.bytes / sizeof(float);
      context_.backends[0]->update(
          replica_->stream(),
          {.weights = reinterpret_cast<float*>(weights.data),
           .gradients = reinterpret_cast<const float*>(own(graph.gradients(), b).data),
           .state = state_.data(),
           .count = count,
           .state_count = owned_,
           .state_first = first,
           .grad_scale = grad_scale,
           .options = config_.optimizer});
      first += count;
    }
  }

  std::size_t owned_ = 0;             // elements that this rank updates
  Buffer state_;                      // of their optimizer
  std::vector<comm::Work> gathered_;  // [bucket], weights
  Registrations registered_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_sharded(const StrategyConfig& config,
                                               const StrategyContext& context) {
  return std::make_unique<Sharded>(config, context);
}

}  // namespace ddpbench
