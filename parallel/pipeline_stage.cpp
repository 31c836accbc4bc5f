// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Sends start at once and are not waited for before their slot is needed again: with a stage that
// runs ahead its neighbour may be at any other pass, and both could wait for each other's receive.
// What a slot holds is free when it is: the gradient of an output comes after the output was taken,
// and a stage takes the gradient that its neighbour returned before it sends the input that goes
// into the same slot there.
//
// Forward and backward messages have a communicator each where messages of one are done in the
// order of issue (GPUs): within each direction a stage then waits for the one before alone.
#include "parallel/pipeline_stage.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/nn/model/parts.h"

namespace ddpbench {
namespace {

// Passes whose forward comes before the first backward.
int passes_ahead(const StrategyConfig& config, int stage) {
  const int behind = config.stages - 1 - stage;
  if (behind == 0) return 0;
  return config.one_forward_one_backward ? std::min(config.accumulation_steps, behind)
                                         : config.accumulation_steps;
}

std::size_t bytes_of(const ops::Shape& shape, std::int64_t batch) {
  const auto elements = static_cast<std::size_t>(ops::element_count(shape) * batch);
  return elements * sizeof(float);
}

std::size_t slot_distance(std::size_t bytes) { return round_up(bytes, nn::kTensorAlignment); }

BufferView floats(const float* data, std::size_t bytes) {
  // Copies only read their source; BufferView has no constant form.
  return {reinterpret_cast<std::byte*>(const_cast<float*>(data)), bytes};
}

}  // namespace

std::vector<RankPlan> plan_stages(const StrategyConfig& config) {
  return mapped(std::views::iota(0, config.replicas * config.stages), [&](int r) -> RankPlan {
    const int stage = r % config.stages;
    return {.replicas = {r},
            .shards = {r / config.stages},
            .batch = config.per_device_batch,
            .stage = stage,
            .is_last = stage + 1 == config.stages};
  });
}

std::vector<StageTask> plan_tasks(const StrategyConfig& config, int stage) {
  const int ahead = passes_ahead(config, stage), passes = config.accumulation_steps;
  std::vector<StageTask> tasks;
  for (int i = 0; i < passes + ahead; ++i) {
    if (i < passes) tasks.push_back({.is_forward = true, .pass = i});
    if (i >= ahead) tasks.push_back({.is_forward = false, .pass = i - ahead});
  }
  return tasks;
}

int passes_in_flight(const StrategyConfig& config, int stage) {
  return std::min(config.accumulation_steps, passes_ahead(config, stage) + 1);
}

PipelineStage::PipelineStage(const StrategyConfig& config, const StrategyContext& context,
                             const RankPlan& plan)
    : config_(config),
      context_(context),
      plan_(plan),
      cuts_(nn::choose_cuts(*context.model, config.stages, config.cuts, "--cut")),
      model_(nn::part_of(*context.model, cuts_, plan.stage)),
      tasks_(plan_tasks(config, plan.stage)),
      sent_(static_cast<std::size_t>(passes_in_flight(config, plan.stage))),
      returned_(sent_.size()) {
  if (keeps_input()) input_bytes_ = bytes_of(model_.input_shape, plan.batch);
  if (!is_last()) output_bytes_ = bytes_of(model_.logits_shape(), plan.batch);
}

std::vector<nn::ModelSpec> PipelineStage::all_parts() const {
  return mapped(std::views::iota(0, config_.stages),
                [this](int stage) { return nn::part_of(*context_.model, cuts_, stage); });
}

void PipelineStage::adapt(ReplicaOptions& options) const {
  options.has_loss = is_last();
  options.input_gradient = !is_first();
  if (!is_first()) options.micro_batch = 0;
}

std::vector<PlannedBuffer> PipelineStage::planned(std::size_t state_bytes) {
  const std::size_t slot = slot_distance(input_bytes_) + slot_distance(output_bytes_);
  return {{&slots_, MemoryCategory::activations, sent_.size() * slot, Sharing::mappable},
          {&state_, MemoryCategory::state, recomputes() ? state_bytes : 0}};
}

void PipelineStage::connect(Replica& replica) {
  replica_ = &replica;
  allocate(replica.device(), planned(replica.graph().plan().state_bytes));
  if (context_.world != nullptr) registered_.add(forward_world(), slots_);
}

BufferView PipelineStage::input_slot(int pass) const {
  return slots_.view().slice(slot_of(pass) * slot_distance(input_bytes_), input_bytes_);
}

BufferView PipelineStage::output_slot(int pass) const {
  const std::size_t inputs = sent_.size() * slot_distance(input_bytes_);
  return slots_.view().slice(inputs + slot_of(pass) * slot_distance(output_bytes_), output_bytes_);
}

void PipelineStage::wait_for(const comm::Work& work) {
  const ScopedPhase phase(context_.observer, Phase::stage_wait, replica_->stream());
  work.wait(replica_->stream());
}

void PipelineStage::run(const StepInputs& inputs, float grad_scale,
                        const std::function<void(int)>& backward) {
  for (const StageTask& task : tasks_) {
    if (task.is_forward) {
      forward_pass(task.pass, inputs);
    } else {
      backward_pass(task.pass, grad_scale, backward);
    }
  }
  computed_ = -1;
}

void PipelineStage::forward_pass(int pass, const StepInputs& inputs) {
  input_ = inputs(pass);
  const float* input = input_.images;
  if (!is_first()) {
    input = receive_input(pass);
  } else if (keeps_input()) {
    const BufferView kept = input_slot(pass);
    replica_->device().copy(replica_->stream(), kept, floats(input, kept.bytes));
    input = kept.as<float>().data();
  }
  {
    const ScopedPhase phase(context_.observer, Phase::forward, replica_->stream());
    compute(input, pass);
  }
  if (!is_last()) send_output(pass);
}

void PipelineStage::compute(const float* input, int pass) {
  replica_->forward(input, places_of(config_, plan_.shards[0], pass));
  computed_ = pass;
}

// Layers draw by the place of a sample, so they draw the same again.
void PipelineStage::compute_again(int pass) {
  if (computed_ == pass) return;
  Stream& stream = replica_->stream();
  const ScopedPhase phase(context_.observer, Phase::backward, stream);
  const BufferView state = replica_->graph().state().view();
  if (state_) replica_->device().copy(stream, state_.view(), state);
  compute(input_slot(pass).as<float>().data(), pass);
  if (state_) replica_->device().copy(stream, state, state_.view());
}

const float* PipelineStage::receive_input(int pass) {
  const BufferView slot = input_slot(pass);
  wait_for(returned_[slot_of(pass)]);
  wait_for(forward_world().recv(flat_elements(slot), forward_world().rank() - 1,
                                deferred_after(replica_->stream())));
  return slot.as<float>().data();
}

void PipelineStage::send_output(int pass) {
  Stream& stream = replica_->stream();
  const BufferView slot = output_slot(pass);
  comm::Work& sent = sent_[slot_of(pass)];
  wait_for(sent);
  replica_->device().copy(stream, slot, floats(replica_->graph().output(), slot.bytes));
  sent = forward_world().send(flat_elements(slot), forward_world().rank() + 1,
                              {.after = &replica_->stream()});
}

void PipelineStage::backward_pass(int pass, float grad_scale,
                                  const std::function<void(int)>& backward) {
  Stream& stream = replica_->stream();
  nn::Graph& graph = replica_->graph();
  if (is_last()) {
    const ScopedPhase phase(context_.observer, Phase::loss, stream);
    replica_->loss(input_.labels, grad_scale, input_.valid_weight);
  } else {
    wait_for(sent_[slot_of(pass)]);
    const BufferView slot = output_slot(pass);
    const comm::Work received = backward_world().recv(
        flat_elements(slot), forward_world().rank() + 1, deferred_after(replica_->stream()));
    compute_again(pass);
    wait_for(received);
    replica_->device().copy(stream, floats(graph.output_gradient(), slot.bytes), slot);
  }
  backward(pass);
  if (is_first()) return;
  const BufferView slot = input_slot(pass);
  replica_->device().copy(stream, slot, floats(graph.input_gradient(), slot.bytes));
  returned_[slot_of(pass)] = backward_world().send(flat_elements(slot), forward_world().rank() - 1,
                                                   {.after = &replica_->stream()});
}

void PipelineStage::finish() {
  for (const std::vector<comm::Work>* works : {&sent_, &returned_}) {
    for (const comm::Work& work : *works) work.wait(replica_->stream());
  }
  replica_->stream().synchronize();
}

void PipelineStage::evaluate(const float* images, const std::int32_t* labels,
                             std::int64_t samples) {
  PhaseObserver* const observer = std::exchange(context_.observer, nullptr);  // it is of steps
  const int pass = evaluated_++;
  replica_->evaluate(is_first() ? images : receive_input(pass), labels, samples);
  if (!is_last()) send_output(pass);
  context_.observer = observer;
}

}  // namespace ddpbench
