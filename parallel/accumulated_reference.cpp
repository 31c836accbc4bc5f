// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/accumulated_reference.h"

#include "kernels/ops/tensor_layout.h"

namespace ddpbench {

void AccumulatedReference::setup(const StrategyContext& context) {
  context_ = context;
  replica_ = std::make_unique<Replica>(*context.model, *context.devices[0], *context.backends[0],
                                       ReplicaOptions{.batch = config_.per_device_batch,
                                                      .sgd = config_.optimizer,
                                                      .initialize = context.initialize});
  replica_->reset();
}

void AccumulatedReference::step(const StepInput& input) {
  const std::int64_t batch = config_.per_device_batch;
  const std::int64_t sample = ops::element_count(context_.model->input_shape);
  // The mean over the global batch of all slices.
  const float scale = 1.0f / static_cast<float>(batch * config_.replicas);
  for (int slice = 0; slice < config_.replicas; ++slice) {
    replica_->forward(input.images + slice * batch * sample);
    replica_->loss(input.labels + slice * batch, scale);
    replica_->backward({}, slice > 0);
  }
  replica_->update();
}

}  // namespace ddpbench
