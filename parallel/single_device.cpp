// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Strategies of one device, without communication.
//
// `single`, the baseline of every comparison, computes one replica's batch a step. `reference`,
// which strategies are verified against, computes the global batch of `replicas` slices in rank
// order and accumulates their gradients. So it needs one device's memory, and per-replica
// statistics stay those of the replica.
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
  explicit SingleDevice(StrategyConfig config) : config_(std::move(config)) {}

  void setup(const StrategyContext& context) override;
  void step(const StepInput& input) override;
  void reset() override { replica_->reset(); }
  void assign_parameters(const std::function<void(nn::Graph&)>& assign) override {
    assign(replica_->graph());
  }
  std::vector<Replica*> replicas() override { return {replica_.get()}; }

 private:
  StrategyConfig config_;
  StrategyContext context_;
  std::unique_ptr<Replica> replica_;
};

void SingleDevice::setup(const StrategyContext& context) {
  context_ = context;
  replica_ = std::make_unique<Replica>(*context.model, *context.devices[0], *context.backends[0],
                                       ReplicaOptions{.batch = config_.per_device_batch,
                                                      .sgd = config_.optimizer,
                                                      .initialize = context.initialize,
                                                      .admit = admission(context_, 0)});
  replica_->reset();
}

void SingleDevice::step(const StepInput& input) {
  const std::int64_t batch = config_.per_device_batch;
  const std::int64_t sample = ops::element_count(context_.model->input_shape);
  const float scale = 1.0f / static_cast<float>(batch * config_.replicas);
  for (int slice = 0; slice < config_.replicas; ++slice) {
    const StepInput part{input.images + slice * batch * sample, input.labels + slice * batch};
    forward_and_loss(*replica_, part, scale, context_.observer);
    {
      const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
      replica_->backward({}, slice > 0);
    }
    if (context_.slice_added) context_.slice_added();
  }
  update(*replica_, context_.observer);
}

}  // namespace

std::vector<ProcessPlan> plan_reference(const StrategyConfig& config) {
  std::vector<ProcessPlan> processes = plan_one_process(config);
  processes[0].replicas = {0};
  return processes;
}

std::vector<ProcessPlan> plan_single(const StrategyConfig& config) {
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
