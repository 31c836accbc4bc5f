// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `localsgd`: each replica updates its own weights, and every H-th step their mean takes their
// place (Stich, "Local SGD Converges Fast and Communicates Little", ICLR 2019). With an outer
// optimizer the mean of (anchor - weights) is the gradient of an update of the anchor, the weights
// that the last mean left (Douillard et al., "DiLoCo", 2023: SGD with Nesterov's momentum).
//
// Each replica keeps its optimizer's state and its graph's (running statistics).
//
// Wire, per rank and H steps: 2 (n-1)/n S bytes for S bytes of weights.
#include <memory>
#include <vector>

#include "kernels/ops/optimizer.h"
#include "parallel/gradient_exchange.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

class LocalSgd final : public GradientExchange {
 public:
  using GradientExchange::GradientExchange;

  void adapt(ReplicaOptions& options) override { options.weight_sharing = Sharing::mappable; }

  void finish(bool) override {}

  void update(float grad_scale, bool stale) override {
    GradientExchange::update(grad_scale, stale);
    if (++steps_ == config_.sync_every) average(context_.observer);
  }

  void publish() override {
    if (steps_ > 0) average(nullptr);
  }

  // Tells the buckets of weights, in the steps that average them.
  void report(PhaseObserver& observer) override {
    for (std::size_t b = 0; steps_ == 0 && b < buckets().size(); ++b) {
      if (is_missing(b)) continue;
      const comm::WorkTimes times = followed_[b].times();
      report_transfer(observer, b, buckets()[b].bytes, times.start_s, times);
    }
  }

  void parameters_set(bool to_step_0) override {
    steps_ = 0;
    if (!anchor_) return;
    replica_->device().copy(replica_->stream(), anchor_.view(), weights());
    if (to_step_0 && velocity_) fill_with_zeros(replica_->device(), replica_->stream(), velocity_);
  }

  // At the end of a cycle, when the anchor is the weights.
  void add_parts(std::vector<StatePart>& parts) override {
    ensure(steps_ == 0, "{} steps into a cycle replicas differ", steps_);
    for (int r = 0; r < world().size(); ++r) {
      std::vector<StatePart> own;
      replica_->add_parts(own, {.owner = r, .replica = r});
      for (StatePart& part : own) {
        if (r != world().rank()) part.memory = {};
        parts.push_back(std::move(part));
      }
      if (r > 0) parts.push_back(scale_of(r));
    }
    if (!has_outer()) return;
    const std::size_t bytes = anchor_.bytes();
    add_slots(parts, {.kind = StatePart::Kind::extra, .bytes = bytes}, outer(), velocity_.data(),
              bytes / sizeof(float), 0, "outer_");
  }

  // The mean of the replicas' own, for those who compare it.
  BufferView fetch_gradients() override {
    const BufferView gradients = replica_->graph().gradients().view();
    all_reduce(gradients, {.after = &replica_->stream()}).wait(replica_->stream());
    return gradients;
  }

 private:
  StatePart scale_of(int r) const {
    StatePart part{.kind = StatePart::Kind::scale, .name = "loss_scale", .owner = r, .replica = r};
    if (config_.scales_loss) part.bytes = sizeof(ops::LossScale);
    auto* const scale = reinterpret_cast<std::byte*>(replica_->loss_scale());
    if (r == world().rank()) part.memory = {scale, part.bytes};
    return part;
  }
  BufferView weights() const { return replica_->graph().weights().view(); }
  bool has_outer() const { return config_.outer_lr != 1 || config_.outer_momentum != 0; }
  ops::OptimizerOptions outer() const {
    return {.lr = config_.outer_lr,
            .momentum = config_.outer_momentum,
            .nesterov = config_.outer_momentum > 0};
  }

  std::vector<PlannedBuffer> planned(const nn::ParameterPlan& parameters) override {
    if (!has_outer()) return {};
    return {{&anchor_, MemoryCategory::optimizer, parameters.flat_bytes},
            {&velocity_, MemoryCategory::optimizer,
             ops::optimizer_state_bytes(outer(), parameters.flat_bytes / sizeof(float))}};
  }

  void open(const std::vector<Bucket>& buckets) override {
    agree_on(buckets);
    registered_.add(world(), replica_->graph().weights());
  }

  comm::Work start(std::size_t, const comm::CallOptions&) override { return {}; }

  comm::Work all_reduce(const BufferView& range, const comm::CallOptions& options) {
    return world().all_reduce(flat_elements(range), comm::ReduceOp::average, options);
  }

  // Ends the cycle. `observer` may be null.
  void average(PhaseObserver* observer) {
    steps_ = 0;
    if (has_outer()) {
      const ScopedPhase phase(observer, Phase::optimizer, replica_->stream());
      add(*context_.backends[0], replica_->stream(), weights(), -1, anchor_.data());
    }
    {
      const ScopedPhase phase(observer, Phase::comm_wait, replica_->stream());
      for (std::size_t b = 0; b < buckets().size(); ++b) {
        if (is_missing(b)) continue;
        followed_[b] = all_reduce(range_of(weights(), b), {.after = &replica_->stream(),
                                                           .start = comm::Start::deferred,
                                                           .bucket = static_cast<int>(b)});
      }
      for (const comm::Work& work : followed_) work.wait(replica_->stream());
    }
    if (!has_outer()) return;
    const ScopedPhase phase(observer, Phase::optimizer, replica_->stream());
    context_.backends[0]->update(replica_->stream(),
                                 {.weights = reinterpret_cast<float*>(anchor_.data()),
                                  .gradients = reinterpret_cast<const float*>(weights().data),
                                  .state = velocity_.data(),
                                  .count = weights().bytes / sizeof(float),
                                  .grad_scale = -1,
                                  .options = outer()});
    replica_->device().copy(replica_->stream(), weights(), anchor_.view());
  }

  int steps_ = 0;             // since the replicas were equal
  Buffer anchor_, velocity_;  // with an outer optimizer
  Registrations registered_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_local_sgd(const StrategyConfig& config,
                                                 const StrategyContext& context) {
  return std::make_unique<LocalSgd>(config, context);
}

}  // namespace ddpbench
