// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/single_device.h"

#include "parallel/step_parts.h"

namespace ddpbench {

void SingleDevice::setup(const StrategyContext& context) {
  context_ = context;
  replica_ = std::make_unique<Replica>(*context.model, *context.devices[0], *context.backends[0],
                                       ReplicaOptions{.batch = config_.per_device_batch,
                                                      .sgd = config_.optimizer,
                                                      .initialize = context.initialize});
  replica_->reset();
}

void SingleDevice::step(const StepInput& input) {
  const float scale = 1.0f / static_cast<float>(config_.per_device_batch);
  forward_and_loss(*replica_, input, scale, context_.observer);
  {
    const ScopedPhase phase(context_.observer, Phase::backward, replica_->stream());
    replica_->backward();
  }
  update(*replica_, context_.observer);
}

}  // namespace ddpbench
