// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/nn/graph.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/ranges.h"

namespace ddpbench::nn {
namespace {

bool draws(const LoweredNetwork& network) {
  return std::ranges::any_of(network.plan.operations,
                             [](const auto& op) { return op->plan().draws_random_numbers; });
}

// Plans the casts of weights, where operations read copies of another type.
void plan_casts(LoweredNetwork& network, ops::OpBackend& backend) {
  const auto is_narrow = [](const auto& op) { return op->plan().weight_type != DataType::fp32; };
  const auto reader = std::ranges::find_if(network.plan.operations, is_narrow);
  if (reader == network.plan.operations.end()) return;
  const DataType type = (*reader)->plan().weight_type;
  const auto add = [&](std::size_t offset, std::size_t bytes) {
    const auto flat = ops::TensorLayout::plain({static_cast<std::int64_t>(bytes / sizeof(float))});
    auto op = backend.make(ops::ReorderDesc{.from = flat, .to = with_type(flat, type)});
    network.plan.casts.push_back({op.get(), offset});
    network.plan.operations.push_back(std::move(op));
  };
  const ParameterPlan& plan = network.parameters;
  std::size_t first = 0;
  for (const std::size_t end : plan.units) {
    const std::size_t begin = plan.weight_offsets[first];
    add(begin, plan.weight_offsets[end - 1] + plan.parameters[end - 1].bytes - begin);
    first = end;
  }
  const std::size_t rest = plan.has_units() ? plan.frozen_bytes() : plan.weight_bytes;
  if (rest > 0) add(plan.held_bytes() - rest, rest);
}

// Forbids a unit to begin at a parameter where a call reads parameters of both sides, or one of the
// side behind before the last of the side in front. The micro-batched part's calls count as one.
void forbid_units(const std::vector<PlannedCall>& calls, bool reversed,
                  std::vector<bool>& may_begin) {
  const std::size_t count = may_begin.size();
  const auto micro =
      static_cast<std::size_t>(std::ranges::find(calls, true, &PlannedCall::micro) - calls.begin());
  std::vector<std::size_t> first(count, calls.size()), last(count, 0);
  for (std::size_t at = 0; at < calls.size(); ++at) {
    const std::size_t call = calls[at].micro ? micro : at;
    const std::size_t time = reversed ? calls.size() - 1 - call : call;
    for (const std::size_t i : calls[at].parameters) {
      if (i >= count) continue;
      first[i] = std::min(first[i], time);
      last[i] = std::max(last[i], time);
    }
  }
  for (std::size_t i = 1; i < count; ++i) last[i] = std::max(last[i], last[i - 1]);
  for (std::size_t i = count; i-- > 1;) {
    if (i + 1 < count) first[i] = std::min(first[i], first[i + 1]);
    if (last[i - 1] >= first[i]) may_begin[i] = false;
  }
}

// The calls of the micro-batched part, which come last, write all their gradients before any is
// complete.
void plan_gradients(LoweredNetwork& network, const GraphOptions& options) {
  ParameterPlan& plan = network.parameters;
  const std::size_t count = plan.parameters.size();
  plan.gradient_offsets = mapped(plan.parameters, &ParameterInfo::offset_bytes);
  plan.gradient_bytes = plan.flat_bytes;
  plan.written_after.resize(count);
  std::vector<bool> is_complete(count);
  std::size_t complete = 0;
  for (const PlannedCall& call : network.plan.backward) {
    for (const std::size_t i : call.parameters) {
      if (call.direction != Direction::backward || i >= count) continue;
      plan.written_after[i] = complete;
      is_complete[i] = !call.micro;
    }
    while (complete < count && is_complete[complete]) ++complete;
  }
  if (options.store != nullptr) {
    plan.may_begin_unit.assign(count, true);
    // Parameters come in the reverse order of forward's calls.
    forbid_units(network.plan.forward, true, plan.may_begin_unit);
    forbid_units(network.plan.backward, false, plan.may_begin_unit);
  }
  if (options.place_gradients) options.place_gradients(plan);
}

LoweredNetwork plan_network(const ModelSpec& model, ops::OpBackend& backend,
                            const GraphOptions& options) {
  ensure(options.batch >= 1, "a batch of {} for {}", options.batch, model.name);
  LoweredNetwork network = lower_network(model, backend, options);
  if (options.training) {
    plan_backward(network.plan, backend, options.input_gradient);
    plan_gradients(network, options);
  }
  plan_casts(network, backend);
  place_values(network.plan);
  network.plan.workspace_bytes = largest(network.plan.operations, std::size_t{0},
                                         [](const auto& op) { return op->plan().workspace_bytes; });
  return network;
}

// The memory of a state tensor of any type, for conversions that only copy it.
ops::TensorLayout words_of(const StateInfo& state) {
  return ops::TensorLayout::plain({static_cast<std::int64_t>(state.bytes / sizeof(float))});
}

// The memory through which a tensor of this size in PyTorch's form passes.
std::array<PlannedBuffer, 1> planned_staging(Buffer& staging, std::size_t bytes) {
  return {{{&staging, MemoryCategory::workspace, bytes}}};
}

// The largest tensor in PyTorch's form: import and export bring one at a time to the device.
std::size_t conversion_bytes(const ParameterPlan& parameters) {
  std::size_t most = largest(parameters.state, std::size_t{0}, &StateInfo::bytes);
  for (std::size_t i = 0; i < parameters.tensor_count(); ++i) {
    most = std::max(most, ops::TensorLayout::plain(parameters.tensor(i).shape).bytes);
  }
  return most;
}

}  // namespace

ProgramMemory Graph::Memory::views() const {
  return {arena.view(),
          workspace.view(),
          weights.view(),
          gradients.view(),
          weight_copies.view(),
          state.view(),
          steps ? step_count() : nullptr};
}

// After options.admit has accepted it.
Graph::Memory Graph::allocate_memory(const LoweredNetwork& network, Device& device,
                                     const GraphOptions& options) {
  Memory memory;
  const std::vector<WeightCast>& casts = network.plan.casts;
  const std::size_t weight_bytes = network.parameters.held_bytes();
  const std::vector<PlannedBuffer> planned = {
      {&memory.weight_copies, MemoryCategory::weights,
       casts.empty() ? 0 : weight_bytes / sizeof(float) * size_of(casts[0].op->plan().output.type)},
      {&memory.weights, MemoryCategory::weights, weight_bytes, options.weight_sharing},
      {&memory.gradients, MemoryCategory::gradients, network.parameters.gradient_bytes,
       options.gradient_sharing},
      {&memory.state, MemoryCategory::state, network.parameters.state_bytes},
      {&memory.steps, MemoryCategory::workspace, draws(network) ? sizeof(std::int64_t) : 0},
      {&memory.arena, MemoryCategory::activations, network.plan.arena_bytes},
      {&memory.workspace, MemoryCategory::workspace, network.plan.workspace_bytes}};
  if (options.admit) {
    MemoryNeeds needs(device);
    needs.add(planned);
    Buffer staging;
    needs.add(planned_staging(staging, conversion_bytes(network.parameters)));
    options.admit(network.parameters, needs);
  }
  allocate(device, planned);
  return memory;
}

Graph::Graph(const ModelSpec& model, Device& device, ops::OpBackend& backend,
             const GraphOptions& options)
    : model_(model),
      device_(device),
      backend_(backend),
      network_(plan_network(model, backend, options)),
      memory_(allocate_memory(network_, device, options)),
      store_(options.store),
      program_(network_.plan, network_.parameters, memory_.views()) {
  program_.use(store_);
}

void Graph::hold_whole() {
  const std::vector<PlannedBuffer> planned = {
      {&whole_, MemoryCategory::weights, plan().weight_bytes}};
  if (plan().has_units() && !whole_) allocate(device_, planned);
}

BufferView Graph::kept_weights(std::size_t i) const {
  const ParameterInfo& parameter = plan().parameters[i];
  if (plan().has_units()) return store_->kept(parameter.offset_bytes, parameter.bytes).memory;
  return memory_.weights.view().slice(parameter.offset_bytes, parameter.bytes);
}

void Graph::to_host(const ops::TensorLayout& layout, const std::byte* at,
                    const ops::TensorLayout& plain, std::span<std::byte> host) const {
  Buffer staging;
  allocate(device_, planned_staging(staging, plain.bytes));
  backend_.convert(layout, at, plain, staging.data());
  const auto stream = device_.make_stream();
  device_.copy(*stream, {host.data(), host.size()}, staging.view());
  stream->synchronize();
}

void Graph::to_device(std::span<const std::byte> host, const ops::TensorLayout& plain,
                      const ops::TensorLayout& layout, std::byte* at) {
  Buffer staging;
  allocate(device_, planned_staging(staging, plain.bytes));
  const auto stream = device_.make_stream();
  // The copy only reads its source, but BufferView has no constant form.
  device_.copy(*stream, staging.view(), {const_cast<std::byte*>(host.data()), host.size()});
  stream->synchronize();
  backend_.convert(plain, staging.data(), layout, at);
}

float* Graph::floats_of(int value) const {
  const std::size_t offset = network_.plan.values[static_cast<std::size_t>(value)].offset_bytes;
  return reinterpret_cast<float*>(memory_.arena.data() + offset);
}

const Buffer& Graph::gradients() const {
  ensure(network_.plan.trains(), "a forward-only graph has no gradients");
  return memory_.gradients;
}

float* Graph::output(std::size_t k) const { return floats_of(network_.plan.logits.at(k)); }

float* Graph::output_gradient(std::size_t k) const {
  ensure(network_.plan.trains(), "a forward-only graph has no output gradient");
  return floats_of(network_.plan.output_gradients.at(k));
}

float* Graph::input_gradient() const { return floats_of(network_.plan.input_gradient); }

void Graph::forward(Stream& stream, const float* input, ops::Mode mode,
                    const ops::SamplePlaces& places) {
  if (!network_.plan.trains()) mode = ops::Mode::evaluation;
  program_.forward(stream, input, mode, places);
  forward_done_ = mode == ops::Mode::training;
}

void Graph::backward(Stream& stream, const GradientReady& ready, bool accumulate) {
  ensure(network_.plan.trains(), "a forward-only graph has no backward");
  // Backward's gradients overwrite activations that are no longer needed.
  ensure(forward_done_, "backward needs a forward in training since the last backward");
  forward_done_ = false;
  program_.backward(stream, ready, accumulate);
}

void Graph::end_step(Stream& stream) {
  if (memory_.steps) backend_.increment(stream, memory_.step_count());
}

void Graph::set_steps(Stream& stream, std::int64_t steps) {
  if (!memory_.steps) return;
  device_.copy(stream, memory_.steps.view().slice(0, sizeof(steps)),
               {reinterpret_cast<std::byte*>(&steps), sizeof(steps)});
  stream.synchronize();
}

std::vector<float> Graph::export_parameter(std::size_t i, const BufferView& flat) const {
  const ParameterInfo& parameter = plan().tensor(i);
  ensure(flat.bytes >= parameter.offset_bytes + parameter.bytes, "{} is not in {} bytes",
         parameter.name, flat.bytes);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  std::vector<float> values(plain.bytes / sizeof(float));
  to_host(parameter.layout, flat.data + parameter.offset_bytes, plain,
          std::as_writable_bytes(std::span(values)));
  return values;
}

void Graph::import_parameter(std::size_t i, std::span<const float> values, const BufferView& flat) {
  const ParameterInfo& parameter = plan().tensor(i);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  ensure(values.size_bytes() == plain.bytes, "{} has {} values, found {}", parameter.name,
         plain.bytes / sizeof(float), values.size());
  if (plan().has_units() && flat.data == whole_.data()) {
    // By way of the place where its unit will be.
    const BufferView at = memory_.weights.view().slice(plan().weight_offset(i), parameter.bytes);
    to_device(std::as_bytes(values), plain, parameter.layout, at.data);
    return store_->put(parameter.offset_bytes, at);
  }
  ensure(flat.bytes >= parameter.offset_bytes + parameter.bytes, "{} is not in {} bytes",
         parameter.name, flat.bytes);
  to_device(std::as_bytes(values), plain, parameter.layout, flat.data + parameter.offset_bytes);
}

std::vector<std::byte> Graph::export_state(std::size_t i) const {
  const StateInfo& state = plan().state.at(i);
  const ops::TensorLayout words = words_of(state);
  std::vector<std::byte> bytes(state.bytes);
  to_host(words, memory_.state.data() + state.offset_bytes, words, bytes);
  return bytes;
}

void Graph::import_state(std::size_t i, std::span<const std::byte> bytes) {
  const StateInfo& state = plan().state.at(i);
  ensure(bytes.size() == state.bytes, "{} has {} bytes, found {}", state.name, state.bytes,
         bytes.size());
  const ops::TensorLayout words = words_of(state);
  to_device(bytes, words, words, memory_.state.data() + state.offset_bytes);
}

}  // namespace ddpbench::nn
