// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/single_device.h"

#include "base/error.h"
#include "kernels/ops/tensor_layout.h"
#include "parallel/step_parts.h"

namespace ddpbench {

std::vector<ProcessPlan> SingleDevice::plan(const StrategyConfig& config) {
  std::vector<ProcessPlan> processes = plan_one_process(config);
  processes[0].replicas = {0};
  return processes;
}

std::vector<ProcessPlan> SingleDevice::plan_single(const StrategyConfig& config) {
  if (config.replicas != 1) {
    throw ConfigError(
        fmt::format("strategy single uses 1 device, but {} were asked for", config.replicas));
  }
  return plan(config);
}

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
    const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
    replica_->backward({}, slice > 0);
  }
  update(*replica_, context_.observer);
}

}  // namespace ddpbench
