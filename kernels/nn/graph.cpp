// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ties the parts of a plan together and owns the memory.
#include "kernels/nn/graph.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/nn/plan/lowering.h"
#include "kernels/nn/plan/plan.h"
#include "kernels/nn/program.h"

namespace ddpbench::nn {
namespace {

ops::TensorLayout flat_bf16(const ParameterPlan& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.flat_bytes / sizeof(float));
  return ops::TensorLayout::plain({count}, DataType::bf16);
}

bool draws(const LoweredNetwork& network) {
  return std::ranges::any_of(network.plan.operations,
                             [](const auto& op) { return op->plan().draws_random_numbers; });
}

}  // namespace

struct GraphMemory {
  Buffer weights_bf16;  // of the last forward, where operations read bf16
  Buffer weights, gradients, state, arena, workspace;
  Buffer steps;  // the number of training steps, where operations draw by it

  std::vector<PlannedBuffer> planned(const LoweredNetwork& network, const GraphOptions& options) {
    const std::size_t flat = network.parameters.flat_bytes;
    const bool casts = network.plan.cast_to_bf16 != nullptr;
    return {
        {&weights_bf16, MemoryCategory::weights, casts ? flat_bf16(network.parameters).bytes : 0},
        {&weights, MemoryCategory::weights, flat, options.weight_sharing},
        {&gradients, MemoryCategory::gradients, options.training ? flat : 0,
         options.gradient_sharing},
        {&state, MemoryCategory::state, network.parameters.state_bytes},
        {&steps, MemoryCategory::workspace, draws(network) ? sizeof(std::int64_t) : 0},
        {&arena, MemoryCategory::activations, network.plan.arena_bytes},
        {&workspace, MemoryCategory::workspace, network.plan.workspace_bytes}};
  }
  std::int64_t* step_count() const { return reinterpret_cast<std::int64_t*>(steps.data()); }
  ProgramMemory views() const {
    return {arena.view(),
            workspace.view(),
            weights.view(),
            gradients.view(),
            weights_bf16.view(),
            state.view(),
            steps ? step_count() : nullptr};
  }
};

namespace {

// Plans the cast of the flat parameters, where operations read them in bf16.
void plan_cast(LoweredNetwork& network, ops::OpBackend& backend) {
  const auto reads_bf16 = [](const auto& op) { return op->plan().reads_bf16_weights; };
  if (std::ranges::none_of(network.plan.operations, reads_bf16)) return;
  const ops::TensorLayout bf16 = flat_bf16(network.parameters);
  auto op =
      backend.make(ops::ReorderDesc{.from = ops::TensorLayout::plain(bf16.shape), .to = bf16});
  network.plan.cast_to_bf16 = op.get();
  network.plan.operations.push_back(std::move(op));
}

LoweredNetwork plan_network(const ModelSpec& model, ops::OpBackend& backend,
                            const GraphOptions& options) {
  if (options.batch < 1) {
    throw ConfigError(
        fmt::format("the batch of {} must be at least 1, found {}", model.name, options.batch));
  }
  LoweredNetwork network = lower_network(model, backend,
                                         {.batch = options.batch,
                                          .seed = options.seed,
                                          .parts = options.parts,
                                          .training = options.training,
                                          .micro_batch = options.micro_batch});
  plan_cast(network, backend);
  if (options.training) plan_backward(network.plan, backend);
  place_values(network.plan);
  for (const auto& op : network.plan.operations) {
    network.plan.workspace_bytes =
        std::max(network.plan.workspace_bytes, op->plan().workspace_bytes);
  }
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
  std::size_t most = 0;
  for (const StateInfo& state : parameters.state) most = std::max(most, state.bytes);
  for (const ParameterInfo& parameter : parameters.parameters) {
    most = std::max(most, ops::TensorLayout::plain(parameter.shape).bytes);
  }
  return most;
}

// Allocates the memory of a graph, after options.admit has accepted it.
GraphMemory allocate_memory(const LoweredNetwork& network, Device& device,
                            const GraphOptions& options) {
  GraphMemory memory;
  const std::vector<PlannedBuffer> planned = memory.planned(network, options);
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

std::string layouts_of(const Plan& plan, const PlannedCall& call) {
  std::string text;
  for (const int input : call.inputs) {
    text += layout_at(plan, input, call.micro).tag + (input == call.inputs.back() ? "" : ", ");
  }
  return text + " -> " + layout_at(plan, call.output, call.micro).tag;
}

// The bytes of the output and the saved state of a call.
std::size_t kept_bytes(const Plan& plan, const PlannedCall& call) {
  std::size_t bytes = 0;
  for (const int value : {call.output, call.saved}) {
    if (value == kNoValue) continue;
    const Value& v = plan.values[static_cast<std::size_t>(value)];
    bytes += v.stride_bytes == 0 ? v.layout.bytes : v.stride_bytes * plan.repeats(true);
  }
  return bytes;
}

}  // namespace

struct Graph::Impl {
  Impl(const ModelSpec& m, Device& d, ops::OpBackend& b, const GraphOptions& options,
       LoweredNetwork network)
      : model(m),
        device(d),
        backend(b),
        memory(allocate_memory(network, d, options)),
        plan(std::move(network.plan)),
        parameters(std::move(network.parameters)),
        program(plan, parameters, memory.views()) {}

  // Copies a tensor in device memory to the host, after all work that was queued before.
  void to_host(const ops::TensorLayout& layout, const std::byte* at, const ops::TensorLayout& plain,
               std::span<std::byte> host) const {
    Buffer staging;
    allocate(device, planned_staging(staging, plain.bytes));
    backend.convert(layout, at, plain, staging.data());
    const auto stream = device.make_stream();
    device.copy(*stream, {host.data(), host.size()}, staging.view());
    stream->synchronize();
  }

  void to_device(std::span<const std::byte> host, const ops::TensorLayout& plain,
                 const ops::TensorLayout& layout, std::byte* at) {
    Buffer staging;
    allocate(device, planned_staging(staging, plain.bytes));
    const auto stream = device.make_stream();
    // The copy only reads its source, but BufferView has no constant form.
    device.copy(*stream, staging.view(), {const_cast<std::byte*>(host.data()), host.size()});
    stream->synchronize();
    backend.convert(plain, staging.data(), layout, at);
  }

  float* floats_of(int value) const {
    const std::size_t offset = plan.values[static_cast<std::size_t>(value)].offset_bytes;
    return reinterpret_cast<float*>(memory.arena.data() + offset);
  }

  ModelSpec model;
  Device& device;
  ops::OpBackend& backend;
  GraphMemory memory;
  Plan plan;
  ParameterPlan parameters;
  Program program;
  bool forward_done = false;  // in training, since the last backward
};

Graph::Graph(const ModelSpec& model, Device& device, ops::OpBackend& backend,
             const GraphOptions& options)
    : impl_(std::make_unique<Impl>(model, device, backend, options,
                                   plan_network(model, backend, options))) {}

Graph::~Graph() = default;

const ParameterPlan& Graph::plan() const { return impl_->parameters; }
const ModelSpec& Graph::model() const { return impl_->model; }
std::int64_t Graph::batch() const { return impl_->plan.batch; }
std::int64_t Graph::micro_batch() const { return impl_->plan.micro_batch; }
const Buffer& Graph::weights() const { return impl_->memory.weights; }

const Buffer& Graph::gradients() const {
  ensure(impl_->plan.trains(), "a forward-only graph has no gradients");
  return impl_->memory.gradients;
}

const Buffer& Graph::state() const { return impl_->memory.state; }

float* Graph::output(std::size_t k) const { return impl_->floats_of(impl_->plan.logits.at(k)); }

float* Graph::output_gradient(std::size_t k) const {
  ensure(impl_->plan.trains(), "a forward-only graph has no output gradient");
  return impl_->floats_of(impl_->plan.output_gradients.at(k));
}

std::string Graph::describe() const {
  const Plan& plan = impl_->plan;
  std::string text;
  for (const PlannedCall& call : plan.forward) {
    text +=
        fmt::format("{}: {}, {}, {} x {} samples, {} bytes\n", call.name,
                    call.op->plan().description, layouts_of(plan, call), plan.repeats(call.micro),
                    call.micro ? plan.micro_batch : plan.batch, kept_bytes(plan, call));
  }
  return text;
}

const std::vector<std::string>& Graph::call_names() const { return impl_->program.call_names(); }

void Graph::observe_layers(LayerObserver* observer) { impl_->program.observe(observer); }

std::vector<std::size_t> Graph::exchanges() const {
  std::vector<std::size_t> exchanges;
  const Plan& plan = impl_->plan;
  for (const std::vector<PlannedCall>* calls : {&plan.forward, &plan.backward}) {
    for (const PlannedCall& call : *calls) {
      if (call.direction == Direction::recompute) continue;
      const std::size_t bytes = call.direction == Direction::forward
                                    ? call.op->plan().forward_exchange_bytes
                                    : call.op->plan().backward_exchange_bytes;
      if (bytes > 0) exchanges.push_back(bytes);
    }
  }
  return exchanges;
}

double Graph::step_flops() const {
  const Plan& plan = impl_->plan;
  double flops = 0;
  for (const std::vector<PlannedCall>* calls : {&plan.forward, &plan.backward}) {
    for (const PlannedCall& call : *calls) {
      if (call.direction == Direction::recompute) continue;  // the step's work, not its price
      const double once = call.direction == Direction::forward ? call.op->plan().forward_flops
                                                               : call.op->plan().backward_flops;
      flops += once * static_cast<double>(plan.repeats(call.micro));
    }
  }
  return flops;
}

void Graph::forward(Stream& stream, const float* input, ops::Mode mode,
                    const ops::SamplePlaces& places) {
  if (!impl_->plan.trains()) mode = ops::Mode::evaluation;
  impl_->program.forward(stream, input, mode, places);
  impl_->forward_done = mode == ops::Mode::training;
}

void Graph::backward(Stream& stream, const GradientReady& ready, bool accumulate) {
  ensure(impl_->plan.trains(), "a forward-only graph has no backward");
  // Backward's gradients overwrite activations that are no longer needed.
  ensure(impl_->forward_done, "backward needs a forward in training since the last backward");
  impl_->forward_done = false;
  impl_->program.backward(stream, ready, accumulate);
}

void Graph::end_step(Stream& stream) {
  if (impl_->memory.steps) impl_->backend.increment(stream, impl_->memory.step_count());
}

void Graph::reset_steps(Stream& stream) {
  if (impl_->memory.steps) fill_with_zeros(impl_->device, stream, impl_->memory.steps);
}

std::vector<float> Graph::export_parameter(std::size_t i, const BufferView& flat) const {
  const ParameterInfo& parameter = impl_->parameters.parameters.at(i);
  ensure(flat.bytes == impl_->parameters.flat_bytes, "a flat buffer has {} bytes, the plan {}",
         flat.bytes, impl_->parameters.flat_bytes);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  std::vector<float> values(plain.bytes / sizeof(float));
  impl_->to_host(parameter.layout, flat.data + parameter.offset_bytes, plain,
                 std::as_writable_bytes(std::span(values)));
  return values;
}

void Graph::import_parameter(std::size_t i, std::span<const float> values, const BufferView& flat) {
  const ParameterInfo& parameter = impl_->parameters.parameters.at(i);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  ensure(flat.bytes == impl_->parameters.flat_bytes, "a flat buffer has {} bytes, the plan {}",
         flat.bytes, impl_->parameters.flat_bytes);
  ensure(values.size_bytes() == plain.bytes, "{} has {} values, found {}", parameter.name,
         plain.bytes / sizeof(float), values.size());
  impl_->to_device(std::as_bytes(values), plain, parameter.layout,
                   flat.data + parameter.offset_bytes);
}

std::vector<std::byte> Graph::export_state(std::size_t i) const {
  const StateInfo& state = impl_->parameters.state.at(i);
  const ops::TensorLayout words = words_of(state);
  std::vector<std::byte> bytes(state.bytes);
  impl_->to_host(words, impl_->memory.state.data() + state.offset_bytes, words, bytes);
  return bytes;
}

void Graph::import_state(std::size_t i, std::span<const std::byte> bytes) {
  const StateInfo& state = impl_->parameters.state.at(i);
  ensure(bytes.size() == state.bytes, "{} has {} bytes, found {}", state.name, state.bytes,
         bytes.size());
  const ops::TensorLayout words = words_of(state);
  impl_->to_device(bytes, words, words, impl_->memory.state.data() + state.offset_bytes);
}

}  // namespace ddpbench::nn
