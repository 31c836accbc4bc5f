// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Replica: one full copy of the model on one device, with its compute stream, loss and optimizer.
// It has the parts of a training step that all strategies use. The device's leading thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/nn/graph.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"
#include "parallel/state_parts.h"

namespace ddpbench {

// The needs that it admits include what the replica allocates beside its graph.
struct ReplicaOptions : nn::GraphOptions {
  // Rows of gathered_loss(): the global batch on dp's primary; 0: it is not called.
  std::int64_t loss_batch = 0;
  bool updates = true;       // holds optimizer state and can update
  bool scales_loss = false;  // gradients are of so many times the loss (loss_scale())
  ops::OptimizerOptions optimizer = {};
  std::function<void(nn::Graph&)> initialize = {};
  bool has_loss = true;  // false: its layers give no logits
};

class Replica {
 public:
  Replica(const nn::ModelSpec& model, Device& device, ops::OpBackend& backend,
          const ReplicaOptions& options);

  Device& device() { return device_; }
  Stream& stream() { return *stream_; }
  nn::Graph& graph() { return graph_; }
  std::int64_t batch() const { return options_.batch; }
  bool updates() const { return options_.updates; }

  // Sets weights, optimizer state and the number of steps to step 0, and totals to zero.
  void reset();

  // Forward in training, for samples that stand at `places` in the global batch.
  void forward(const float* images, const ops::SamplePlaces& places) {
    graph_.forward(*stream_, images, ops::Mode::training, places);
  }
  // Computes the losses of all outputs for this replica's own batch, and the output gradients of
  // grad_scale * the sum of the samples' means, weighted by `valid_weight` (StepInput; may be
  // null).
  void loss(const std::int32_t* labels, float grad_scale, const float* valid_weight);
  // The same of output k for `logits` of loss_batch samples that were gathered here. Writes the
  // gradients to `grad_logits`.
  void gathered_loss(std::size_t k, const float* logits, const std::int32_t* labels,
                     float grad_scale, const float* valid_weight, float* grad_logits);
  void backward(const nn::GradientReady& ready = {}, bool accumulate = false) {
    graph_.backward(*stream_, ready, accumulate);
  }
  // Updates the whole flat buffer of parameters by grad_scale * gradients. With a scaled loss it
  // first looks whether they are finite, and then ends the step of the scale.
  void update(float grad_scale = 1);
  // In device memory; null: the loss is not scaled.
  ops::LossScale* loss_scale() const {
    return reinterpret_cast<ops::LossScale*>(loss_scale_.data());
  }
  // Queues end_scaled_step, where the loss is scaled.
  void end_scaled_step();
  // Blocks until the device has done its work; nullopt where the loss is not scaled.
  std::optional<ops::LossScale> read_loss_scale();
  // Goes on with another's. REQUIRES: scales_loss.
  void set_loss_scale(ops::LossScale scale);

  // Lists its optimizer's state, if it updates; `where` says of which rank it is.
  void add_parts(std::vector<StatePart>& parts, StatePart where = {});

  // The step is over: layers draw other random numbers in the next.
  void end_step() { graph_.end_step(*stream_); }

  // Totals of the training loss since the last take. Blocks until the device has done its work.
  ops::LossTotals take_totals() { return take(kTraining); }
  // The device memory of these: one ops::LossTotals.
  BufferView totals() const { return totals_of(kTraining); }
  // Queues forward and accuracy of `samples` <= batch images (memory of a whole batch). It touches
  // neither the training totals nor the state of the graph.
  void evaluate(const float* images, const std::int32_t* labels, std::int64_t samples);
  // Queues a copy of the classes that the last evaluate() predicted for maps (LossArgs::predicted).
  void copy_predicted(std::span<std::int32_t> to);
  // Totals of evaluate() since the last take. Blocks until the device has done its work.
  ops::LossTotals take_evaluation() { return take(kEvaluation); }

 private:
  nn::GraphOptions graph_options();
  std::size_t find_loss_workspace(const nn::ModelSpec& model, const ops::OpBackend& backend) const;
  std::vector<PlannedBuffer> planned_buffers(std::size_t flat_bytes);
  ops::LossArgs loss_args(const std::int32_t* labels, float grad_scale,
                          const float* valid_weight) const;
  // Indices into the memory of the totals.
  static constexpr std::size_t kTraining = 0, kEvaluation = 1;
  BufferView totals_of(std::size_t which) const;
  ops::LossTotals take(std::size_t which);

  Device& device_;
  ops::OpBackend& backend_;
  ReplicaOptions options_;
  Buffer optimizer_state_;
  Buffer loss_scale_;
  Buffer totals_;  // two LossTotals: training, evaluation
  std::size_t loss_workspace_bytes_ = 0, predicted_bytes_ = 0;
  Buffer loss_workspace_;  // of all losses, which follow each other on the stream
  Buffer predicted_;       // int32, a class each prediction of an evaluated batch of maps
  std::unique_ptr<Stream> stream_;
  nn::Graph graph_;
};

}  // namespace ddpbench
