// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Replicated training: each rank drives one replica. `single`, `ddp`, the workers of `ps` and
// `reference`, which strategies are verified against, differ in the exchange of gradients that
// their row names.
//
// `single`, the baseline of every comparison, exchanges nothing. `reference` computes the global
// batch on one device: slices of one replica's batch in rank order, whose gradients accumulate. So
// layers that couple samples (batch norm) see one slice, as they do on the replicas. The first pass
// of each slice begins with the state (running statistics) that the step began with, a further one
// with that of the slice's pass before, and the first slice's survives. With sync_batch_norm the
// batch of all is one slice.
//
// The gradients of a step's passes accumulate. They are exchanged while the last one's backward
// runs, or in each (sync_every_pass): the sum so far, whose averaged part is equal on all ranks.
//
// With broadcast_buffers the state is sent from rank 0 before each forward, so that of rank 0
// survives; without, and in ps and localsgd, each rank keeps its own.
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/ops/tensor_layout.h"
#include "parallel/gradient_exchange.h"
#include "parallel/pipeline_stage.h"
#include "parallel/replica.h"
#include "parallel/server_shard.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

constexpr int kStateRoot = 0;

class Replicated final : public Strategy {
 public:
  Replicated(StrategyConfig config, const StrategyTraits& row)
      : config_(std::move(config)), row_(row) {}

  void setup(const StrategyContext& context) override {
    context_ = context;
    rank_ = context.world == nullptr ? 0 : context.world->rank();
    const RankPlan plan = plan_ranks(config_, row_).at(static_cast<std::size_t>(rank_));
    if (plan.role == Role::server) {
      server_ = std::make_unique<ServerShard>(config_, context_, rank_ - config_.replicas);
      return;
    }
    if (row_.splits_layers) {
      stage_ = std::make_unique<PipelineStage>(config_, context, plan);
      context_.model = &stage_->model();
      if (config_.stages > 1) context_.world = context.alike;
    }
    slices_ = config_.sync_batch_norm ? std::vector{plan.shards[0]} : plan.shards;
    batch_ = plan.batch / static_cast<std::int64_t>(slices_.size());
    if (slices_.size() > 1) left_.resize(config_.accumulation_steps > 1 ? slices_.size() : 1);
    make_replica_and_exchange(plan);
    reset();
  }

  void step(const StepInputs& inputs) override {
    skipped_ = exchange_ && exchange_->skips_step();
    if (skipped_) return skip_step(inputs);
    if (shares_state()) {
      const ScopedPhase phase(context_.observer, Phase::replicate, replica_->stream());
      broadcast_state(*context_.world, *replica_, kStateRoot);
    }
    const Buffer& state = replica_->graph().state();
    copy_state(begun_, state);
    if (const RoundingProbe& probe = context_.probe; probe.computed) {
      add_passes(inputs, probe.loss_factor, {});
      probe.computed();
      copy_state(state, begun_);
    }
    add_passes(inputs, 1, context_.slice_added);
    if (!left_.empty()) copy_state(state, left_[0]);
    const int averaged = stage_ ? config_.accumulation_steps : 1;  // passes, too
    const float scale = config_.faults.gradient_factor(config_.replicas * averaged);
    if (exchange_) {
      exchange_->update(scale, is_stale());
    } else if (!is_stale()) {
      update(*replica_, context_.observer, scale);
    }
    replica_->end_step();
    ++step_;
  }

  void report(PhaseObserver& observer) override {
    if (exchange_ && !skipped_) exchange_->report(observer);
  }
  ServedPushes serve() override {
    ensure(server_ != nullptr, "rank {} is no server", rank_);
    return server_->serve();
  }
  bool skipped() const override { return skipped_; }

  void reset() override {
    replica_->reset();
    if (exchange_) exchange_->parameters_set(true);
    step_ = 0;
  }
  void assign(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
    if (exchange_) exchange_->parameters_set(false);
  }
  BufferView fetch_gradients(std::size_t i) override {
    return exchange_ ? exchange_->fetch_gradients() : Strategy::fetch_gradients(i);
  }
  void publish(bool to_evaluate) override {
    const bool comes_by_unit = to_evaluate && replica_->graph().plan().has_units();
    if (exchange_ && !comes_by_unit) exchange_->publish();
    if (shares_state()) broadcast_state(*context_.world, *replica_, kStateRoot);
  }
  void evaluate(std::size_t i, const StepInput& input, std::int64_t samples) override {
    if (!stage_) return Strategy::evaluate(i, input, samples);
    stage_->evaluate(input.images, input.labels, samples);
  }
  void finish() override {
    if (stage_) stage_->finish();
    if (exchange_) exchange_->say_goodbye();
  }
  std::vector<StatePart> parts() override {
    std::vector<StatePart> parts;
    exchange_ ? exchange_->add_parts(parts) : replica_->add_parts(parts);
    const BufferView state = replica_->graph().state().view();
    const bool own =
        context_.world != nullptr && !shares_state() && !config_.sync_batch_norm && !stage_;
    for (int r = 1; own && state.bytes > 0 && r < config_.replicas; ++r) {
      parts.push_back({.kind = StatePart::Kind::state,
                       .owner = r,
                       .replica = r,
                       .bytes = state.bytes,
                       .memory = r == rank_ ? state : BufferView{}});
    }
    return parts;
  }
  void command_servers(Transfer transfer) override {
    if (exchange_) exchange_->command_servers(transfer);
  }
  std::vector<nn::ModelSpec> split() const override {
    return stage_ ? stage_->all_parts() : std::vector<nn::ModelSpec>{};
  }
  std::vector<Replica*> replicas() override {
    return replica_ ? std::vector{replica_.get()} : std::vector<Replica*>{};
  }

 private:
  bool shares_state() const {
    return config_.broadcast_buffers && context_.world != nullptr && row_.shares_state();
  }
  bool is_stale() const { return config_.faults.is_stale(rank_, step_); }

  void make_replica_and_exchange(const RankPlan& plan) {
    if (context_.world != nullptr) {
      exchange_ = row_.exchange(config_, context_);
    } else if (row_.is_listed && !stage_) {
      exchange_ = make_ready_times(config_, context_);
    }
    if (plan.shards.size() == 1) synced_ = make_synced_batch(config_, context_, 0);
    ReplicaOptions options{{.batch = batch_, .parts = synced_.get()}};
    if (exchange_) exchange_->adapt(options);
    if (stage_) stage_->adapt(options);
    options.admit = [this](const nn::ParameterPlan& parameters, MemoryNeeds& needs) {
      needs.add(planned_buffers(parameters.state_bytes));
      if (stage_) needs.add(stage_->planned(parameters.state_bytes));
      if (exchange_) exchange_->plan(parameters, needs);
    };
    replica_ = make_replica(config_, context_, 0, options);
    allocate(*context_.devices[0], planned_buffers(replica_->graph().plan().state_bytes));
    if (stage_) stage_->connect(*replica_);
    if (exchange_) exchange_->connect(*replica_);
  }

  std::vector<PlannedBuffer> planned_buffers(std::size_t state_bytes) {
    const bool keeps = slices_.size() > 1 || context_.probe.computed;
    std::vector<PlannedBuffer> planned = {
        {&begun_, MemoryCategory::state, keeps ? state_bytes : 0}};
    for (Buffer& left : left_) planned.push_back({&left, MemoryCategory::state, state_bytes});
    return planned;
  }

  // The batches are taken, so that those of later steps stay the same.
  void skip_step(const StepInputs& inputs) {
    for (int pass = 0; pass < config_.accumulation_steps; ++pass) static_cast<void>(inputs(pass));
    replica_->end_step();
    ++step_;
  }

  // Nothing where one slice is all, or where there is no state.
  void copy_state(const Buffer& to, const Buffer& from) {
    if (begun_) context_.devices[0]->copy(replica_->stream(), to.view(), from.view());
  }

  // Sets the gradients to those of `loss_factor` times the mean of the losses, pass by pass.
  void add_passes(const StepInputs& inputs, double loss_factor,
                  const std::function<void()>& added) {
    if (stage_) {
      return stage_->run(inputs, grad_scale(loss_factor), [this](int p) { backward(p, p > 0); });
    }
    for (int pass = 0; pass < config_.accumulation_steps; ++pass) {
      const StepInput input = inputs(pass);
      for (std::size_t slice = 0; slice < slices_.size(); ++slice) {
        add_slice(input, pass, slice, loss_factor);
        if (added) added();
      }
    }
  }

  float grad_scale(double loss_factor) const {
    const auto samples = static_cast<double>(batch_ * std::ssize(slices_));
    return static_cast<float>(loss_factor / (samples * config_.accumulation_steps));
  }

  void add_slice(const StepInput& input, int pass, std::size_t slice, double loss_factor) {
    const Buffer& state = replica_->graph().state();
    if (slices_.size() > 1) copy_state(state, pass == 0 ? begun_ : left_[slice]);
    const std::int64_t first = static_cast<std::int64_t>(slice) * batch_;
    const StepInput part{input.images + first * ops::element_count(context_.model->input_shape),
                         input.labels + first * context_.model->predictions(), input.valid_weight};
    forward_and_loss(*replica_, part, places_of(config_, slices_[slice], pass),
                     grad_scale(loss_factor), context_.observer);
    if (slice < left_.size()) copy_state(left_[slice], state);
    const bool adds = !exchange_ || !exchange_->exchanges_each_pass();
    backward(pass, adds && (pass > 0 || slice > 0));
  }

  void backward(int pass, bool accumulate) {
    static const nn::GradientReady kNobody;
    const bool exchanges = exchange_ && exchange_->exchanges(pass);
    const nn::GradientReady& ready = exchanges ? exchange_->begin_pass() : kNobody;
    {
      const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
      replica_->backward(ready, accumulate);
    }
    if (exchanges) exchange_->finish(is_stale());
  }

  StrategyConfig config_;
  const StrategyTraits& row_;
  StrategyContext context_;
  int rank_ = 0;                          // among all
  std::unique_ptr<ServerShard> server_;   // on a server, which has none of what follows
  std::vector<int> slices_;               // the shards whose batches are computed one by one
  std::int64_t batch_ = 0;                // samples of a slice
  std::unique_ptr<SyncedBatch> synced_;   // null where nothing is exchanged
  std::unique_ptr<PipelineStage> stage_;  // of a strategy that splits layers; else null
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<GradientExchange> exchange_;  // null in a reference
  Buffer begun_;              // with several slices or a probe: the state before the step
  std::vector<Buffer> left_;  // [slice], with several: the state after its last pass
  std::int64_t step_ = 0;     // steps since the last reset
  bool skipped_ = false;      // the last of them
};

}  // namespace

std::unique_ptr<Strategy> make_replicated(const StrategyConfig& config, const StrategyTraits& row) {
  return std::make_unique<Replicated>(config, row);
}

}  // namespace ddpbench
