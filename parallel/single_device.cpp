// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies of one device, without communication.
//
// `single`, the baseline of every comparison, computes one replica's batch a step. `reference`,
// which strategies are verified against, computes the global batch of `replicas` slices in rank
// order and accumulates their gradients. So layers that couple samples (batch norm) see one slice,
// as they do on the replicas. Each slice begins with the state (running statistics) that the step
// began with, and the first slice's survives. With sync_batch_norm the global batch is one slice.
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/ops/tensor_layout.h"
#include "parallel/replica.h"
#include "parallel/step_parts.h"
#include "parallel/strategies.h"
#include "parallel/strategy.h"

namespace ddpbench {
namespace {

class SingleDevice final : public Strategy {
 public:
  explicit SingleDevice(StrategyConfig config)
      : config_(std::move(config)),
        slices_(config_.sync_batch_norm ? 1 : config_.replicas),
        batch_(config_.per_device_batch * config_.replicas / slices_) {}

  void setup(const StrategyContext& context) override {
    context_ = context;
    const auto add = [this](const nn::ParameterPlan& plan, MemoryNeeds& needs) {
      needs.add(planned_buffers(plan.state_bytes));
    };
    replica_ = make_replica(config_, context_, 0, {{.batch = batch_, .admit = add}});
    allocate(*context.devices[0], planned_buffers(replica_->graph().plan().state_bytes));
    replica_->reset();
  }

  void step(const StepInput& input) override {
    const Buffer& state = replica_->graph().state();
    copy_state(begun_, state);
    if (const RoundingProbe& probe = context_.probe; probe.computed) {
      add_slices(input, probe.loss_factor, {});
      probe.computed();
      copy_state(state, begun_);
    }
    add_slices(input, 1, context_.slice_added);
    copy_state(state, survives_);
    update(*replica_, context_.observer);
    replica_->end_step();
  }

  void reset() override { replica_->reset(); }
  void assign_parameters(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
  }
  void assign_state(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
  }
  std::vector<Replica*> replicas() override { return {replica_.get()}; }

 private:
  std::vector<PlannedBuffer> planned_buffers(std::size_t state_bytes) {
    const std::size_t bytes = slices_ > 1 || context_.probe.computed ? state_bytes : 0;
    return {{&begun_, MemoryCategory::state, bytes}, {&survives_, MemoryCategory::state, bytes}};
  }

  // Nothing where one slice is all, or where there is no state.
  void copy_state(const Buffer& to, const Buffer& from) {
    if (begun_) context_.devices[0]->copy(replica_->stream(), to.view(), from.view());
  }

  // Sets the gradients to those of `loss_factor` times the mean of the losses, slice by slice.
  void add_slices(const StepInput& input, double loss_factor, const std::function<void()>& added) {
    const auto scale = static_cast<float>(loss_factor / static_cast<double>(batch_ * slices_));
    const std::int64_t sample = ops::element_count(context_.model->input_shape);
    const Buffer& state = replica_->graph().state();
    for (int slice = 0; slice < slices_; ++slice) {
      if (slice > 0) copy_state(state, begun_);
      const StepInput part{input.images + slice * batch_ * sample,
                           input.labels + slice * batch_ * context_.model->predictions(),
                           input.valid_weight};
      forward_and_loss(*replica_, part, places_of(config_, slice), scale, context_.observer);
      if (slice == 0) copy_state(survives_, state);
      {
        const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
        replica_->backward({}, slice > 0);
      }
      if (added) added();
    }
  }

  StrategyConfig config_;
  int slices_;
  std::int64_t batch_;  // samples of a slice
  StrategyContext context_;
  std::unique_ptr<Replica> replica_;
  // With several slices or a probe: the state before the first slice, and after it.
  Buffer begun_, survives_;
};

}  // namespace

std::vector<RankPlan> plan_reference(const StrategyConfig& config) {
  std::vector<RankPlan> ranks = plan_one_rank(config);
  ranks[0].replicas = {0};
  return ranks;
}

std::vector<RankPlan> plan_single(const StrategyConfig& config) {
  if (config.replicas != 1) {
    throw ConfigError(
        fmt::format("strategy single uses 1 device, but {} were requested", config.replicas));
  }
  return plan_reference(config);
}

std::unique_ptr<Strategy> make_single_device(const StrategyConfig& config) {
  return std::make_unique<SingleDevice>(config);
}

}  // namespace ddpbench
