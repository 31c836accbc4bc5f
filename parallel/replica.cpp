// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica.h"

#include "base/error.h"
#include "parallel/step_parts.h"

namespace ddpbench {
namespace {

// Places in the totals' memory.
constexpr std::size_t kTraining = 0, kEvaluation = 1;
constexpr std::size_t kTotalsBytes = 2 * sizeof(ops::LossTotals);

bool has_gathered_loss(const ReplicaOptions& options) {
  return options.loss_batch != 0 && options.loss_batch != options.batch;
}

bool has_velocity(const ReplicaOptions& options) {
  return options.optimizer && options.sgd.momentum != 0;
}

// What the constructor below allocates beside the graph.
void add_needs(const ReplicaOptions& options, const ops::OpBackend& backend, std::int64_t classes,
               std::size_t flat_bytes, MemoryNeeds& needs) {
  needs.add(MemoryCategory::workspace, kTotalsBytes);
  needs.add(MemoryCategory::workspace, backend.loss_bytes(options.batch, classes));
  if (has_gathered_loss(options)) {
    needs.add(MemoryCategory::workspace, backend.loss_bytes(options.loss_batch, classes));
  }
  if (has_velocity(options)) needs.add(MemoryCategory::optimizer, flat_bytes);
}

// REQUIRES: what is handed over outlives the graph's construction.
nn::GraphOptions graph_options(const ReplicaOptions& options, const nn::ModelSpec& model,
                               const ops::OpBackend& backend) {
  nn::GraphOptions graph;
  graph.batch = options.batch;
  if (options.share_gradients) graph.gradient_sharing = Sharing::mappable;
  if (options.share_weights) graph.weight_sharing = Sharing::mappable;
  if (!options.admit) return graph;
  graph.admit = [&](const nn::ParameterPlan& plan, MemoryNeeds& needs) {
    add_needs(options, backend, model.classes(), plan.flat_bytes, needs);
    options.admit(plan, needs);
  };
  return graph;
}

BufferView host_view(ops::LossTotals& totals) {
  return {reinterpret_cast<std::byte*>(&totals), sizeof(totals)};
}

}  // namespace

Replica::Replica(const nn::ModelSpec& model, Device& device, ops::OpBackend& backend,
                 const ReplicaOptions& options)
    : device_(device),
      options_(options),
      stream_(device.make_stream()),
      graph_(model, device, backend, graph_options(options, model, backend)),
      own_loss_(backend.softmax_cross_entropy(options.batch, model.classes())),
      sgd_(backend.sgd()),
      totals_(device.allocate(kTotalsBytes, MemoryCategory::workspace)) {
  if (has_gathered_loss(options)) {
    gathered_loss_ = backend.softmax_cross_entropy(options.loss_batch, model.classes());
  }
  if (has_velocity(options)) {
    velocity_ = device.allocate(graph_.plan().flat_bytes, MemoryCategory::optimizer);
  }
}

void Replica::reset() {
  options_.initialize(graph_);
  if (velocity_) fill_with_zeros(device_, *stream_, velocity_);
  take_totals();
}

void Replica::loss(const std::int32_t* labels, float grad_scale) {
  own_loss_->run(*stream_, {.logits = graph_.output(),
                            .labels = labels,
                            .samples = options_.batch,
                            .grad_scale = grad_scale,
                            .grad_logits = graph_.output_gradient(),
                            .totals = totals_.view().as<ops::LossTotals>().data()});
}

void Replica::gathered_loss(const float* logits, const std::int32_t* labels, float grad_scale,
                            float* grad_logits) {
  ops::SoftmaxCrossEntropy& op = gathered_loss_ ? *gathered_loss_ : *own_loss_;
  op.run(*stream_, {.logits = logits,
                    .labels = labels,
                    .samples = options_.loss_batch,
                    .grad_scale = grad_scale,
                    .grad_logits = grad_logits,
                    .totals = totals_.view().as<ops::LossTotals>().data()});
}

void Replica::update(float grad_scale) {
  sgd_->run(*stream_, {.weights = reinterpret_cast<float*>(graph_.weights().data()),
                       .gradients = reinterpret_cast<const float*>(graph_.gradients().data()),
                       .velocity = reinterpret_cast<float*>(velocity_.data()),
                       .count = graph_.plan().flat_bytes / sizeof(float),
                       .grad_scale = grad_scale,
                       .options = options_.sgd});
}

BufferView Replica::totals_of(std::size_t which) const {
  return totals_.view().slice(which * sizeof(ops::LossTotals), sizeof(ops::LossTotals));
}

ops::LossTotals Replica::take(std::size_t which) {
  ops::LossTotals totals;
  ops::LossTotals zero;
  device_.copy(*stream_, host_view(totals), totals_of(which));
  device_.copy(*stream_, totals_of(which), host_view(zero));
  stream_->synchronize();
  return totals;
}

ops::LossTotals Replica::take_totals() { return take(kTraining); }

ops::LossTotals Replica::take_evaluation() { return take(kEvaluation); }

void Replica::evaluate(const float* images, const std::int32_t* labels, std::int64_t samples) {
  ensure(samples <= options_.batch, "evaluation of {} samples in a batch of {}", samples,
         options_.batch);
  graph_.forward(*stream_, images);
  own_loss_->run(*stream_, {.logits = graph_.output(),
                            .labels = labels,
                            .samples = samples,
                            .totals = totals_of(kEvaluation).as<ops::LossTotals>().data()});
}

}  // namespace ddpbench
