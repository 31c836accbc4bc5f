// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica.h"

#include <algorithm>

#include "base/error.h"

namespace ddpbench {
namespace {

template <typename T>
BufferView host_view(T& value) {
  return {reinterpret_cast<std::byte*>(&value), sizeof(value)};
}

}  // namespace

Replica::Replica(const nn::ModelSpec& model, Device& device, ops::OpBackend& backend,
                 const ReplicaOptions& options)
    : device_(device),
      backend_(backend),
      options_(options),
      loss_workspace_bytes_(find_loss_workspace(model, backend)),
      predicted_bytes_(!options.has_loss || model.predictions() == 1
                           ? 0
                           : static_cast<std::size_t>(options.batch * model.predictions()) *
                                 sizeof(std::int32_t)),
      stream_(device.make_stream()),
      graph_(model, device, backend, graph_options()) {
  allocate(device, planned_buffers(graph_.plan().flat_bytes));
}

std::size_t Replica::find_loss_workspace(const nn::ModelSpec& model,
                                         const ops::OpBackend& backend) const {
  std::size_t most = 0;
  for (std::size_t k = 0; options_.has_loss && k < model.output_count(); ++k) {
    for (const std::int64_t batch : {options_.batch, options_.loss_batch}) {
      if (batch == 0) continue;
      most = std::max(most, backend.loss_workspace_bytes(nn::loss_of(model, k, batch)));
    }
  }
  return most;
}

std::vector<PlannedBuffer> Replica::planned_buffers(std::size_t flat_bytes) {
  const std::size_t state =
      options_.updates ? ops::optimizer_state_bytes(options_.optimizer, flat_bytes / sizeof(float))
                       : 0;
  return {
      {&loss_scale_, MemoryCategory::workspace, options_.scales_loss ? sizeof(ops::LossScale) : 0},
      {&totals_, MemoryCategory::workspace, 2 * sizeof(ops::LossTotals)},
      {&loss_workspace_, MemoryCategory::workspace, loss_workspace_bytes_},
      {&predicted_, MemoryCategory::workspace, predicted_bytes_},
      {&optimizer_state_, MemoryCategory::optimizer, state}};
}

nn::GraphOptions Replica::graph_options() {
  nn::GraphOptions graph = options_;
  if (!options_.admit) return graph;
  graph.admit = [this](const nn::ParameterPlan& plan, MemoryNeeds& needs) {
    needs.add(planned_buffers(plan.flat_bytes));
    options_.admit(plan, needs);
  };
  return graph;
}

void Replica::reset() {
  options_.initialize(graph_);
  graph_.set_steps(*stream_, 0);
  if (optimizer_state_) fill_with_zeros(device_, *stream_, optimizer_state_);
  if (loss_scale_) {
    set_loss_scale({});
    // No operation writes what is between parameters, and it must be finite.
    fill_with_zeros(device_, *stream_, graph_.gradients());
  }
  take_totals();
}

ops::LossArgs Replica::loss_args(const std::int32_t* labels, float grad_scale,
                                 const float* valid_weight) const {
  return {.labels = labels,
          .samples = options_.batch,
          .grad_scale = grad_scale / static_cast<float>(graph_.model().predictions()),
          .valid_weight = valid_weight,
          .loss_scale = loss_scale(),
          .totals = totals_of(kTraining).as<ops::LossTotals>().data(),
          .workspace = loss_workspace_.data()};
}

void Replica::loss(const std::int32_t* labels, float grad_scale, const float* valid_weight) {
  const nn::ModelSpec& model = graph_.model();
  ops::LossArgs args = loss_args(labels, grad_scale, valid_weight);
  for (std::size_t k = 0; k < model.output_count(); ++k) {
    args.logits = graph_.output(k);
    args.grad_logits = graph_.output_gradient(k);
    backend_.loss(*stream_, nn::loss_of(model, k, options_.batch), args);
  }
}

void Replica::gathered_loss(std::size_t k, const float* logits, const std::int32_t* labels,
                            float grad_scale, const float* valid_weight, float* grad_logits) {
  ops::LossArgs args = loss_args(labels, grad_scale, valid_weight);
  args.logits = logits;
  args.samples = options_.loss_batch;
  args.grad_logits = grad_logits;
  backend_.loss(*stream_, nn::loss_of(graph_.model(), k, options_.loss_batch), args);
}

void Replica::update(float grad_scale) {
  if (loss_scale_) {
    const std::span<const float> gradients = graph_.gradients().view().as<float>();
    backend_.find_overflow(*stream_, gradients.data(), gradients.size(), loss_scale());
  }
  backend_.update(*stream_, {.weights = reinterpret_cast<float*>(graph_.weights().data()),
                             .gradients = reinterpret_cast<const float*>(graph_.gradients().data()),
                             .state = optimizer_state_.data(),
                             .count = graph_.plan().flat_bytes / sizeof(float),
                             .grad_scale = grad_scale,
                             .loss_scale = loss_scale(),
                             .options = options_.optimizer});
  end_scaled_step();
}

void Replica::end_scaled_step() {
  if (loss_scale_) backend_.end_scaled_step(*stream_, loss_scale());
}

std::optional<ops::LossScale> Replica::read_loss_scale() {
  if (!loss_scale_) return std::nullopt;
  ops::LossScale scale;
  device_.copy(*stream_, host_view(scale), loss_scale_.view().slice(0, sizeof(scale)));
  stream_->synchronize();
  return scale;
}

void Replica::set_loss_scale(ops::LossScale scale) {
  device_.copy(*stream_, loss_scale_.view().slice(0, sizeof(scale)), host_view(scale));
  stream_->synchronize();
}

void Replica::add_parts(std::vector<StatePart>& parts, StatePart where) {
  if (!options_.updates) return;
  where.bytes = graph_.plan().flat_bytes;
  const std::size_t count = where.bytes / sizeof(float);
  add_slots(parts, where, options_.optimizer, optimizer_state_.data(), count);
  add_counter(parts, where, options_.optimizer, optimizer_state_.data(), count);
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

void Replica::evaluate(const float* images, const std::int32_t* labels, std::int64_t samples) {
  ensure(samples <= options_.batch, "evaluation of {} samples in a batch of {}", samples,
         options_.batch);
  graph_.forward(*stream_, images, ops::Mode::evaluation);
  if (!options_.has_loss) return;
  backend_.loss(*stream_, nn::loss_of(graph_.model(), 0, options_.batch),
                {.logits = graph_.output(),
                 .labels = labels,
                 .samples = samples,
                 .totals = totals_of(kEvaluation).as<ops::LossTotals>().data(),
                 .predicted = reinterpret_cast<std::int32_t*>(predicted_.data()),
                 .workspace = loss_workspace_.data()});
}

void Replica::copy_predicted(std::span<std::int32_t> to) {
  device_.copy(*stream_, {reinterpret_cast<std::byte*>(to.data()), to.size_bytes()},
               predicted_.view().slice(0, to.size_bytes()));
}

}  // namespace ddpbench
