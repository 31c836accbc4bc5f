// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Ties the plan's parts together and owns the memory.
#include "kernels/nn/graph.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/nn/plan/backward_plan.h"
#include "kernels/nn/plan/lowering.h"
#include "kernels/nn/plan/plan.h"
#include "kernels/nn/plan/value_placement.h"
#include "kernels/nn/program.h"

namespace ddpbench::nn {
namespace {

// The flat parameters in bf16, for the operations that read them so.
ops::TensorLayout rounded_layout(const ParameterPlan& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.flat_bytes / sizeof(float));
  return ops::TensorLayout::plain({count}, DataType::bf16);
}

void plan_rounding(LoweredNetwork& network, ops::OpBackend& backend) {
  const auto reads_rounded = [](const auto& op) { return op->reads_rounded_parameters(); };
  if (std::ranges::none_of(network.plan.operations, reads_rounded)) return;
  const ops::TensorLayout rounded = rounded_layout(network.parameters);
  auto op = backend.reorder({.from = ops::TensorLayout::plain(rounded.shape), .to = rounded});
  network.plan.rounding = op.get();
  network.plan.operations.push_back(std::move(op));
}

std::size_t rounded_bytes(const LoweredNetwork& network) {
  return network.plan.rounding == nullptr ? 0 : rounded_layout(network.parameters).bytes;
}

LoweredNetwork plan_network(const ModelSpec& model, ops::OpBackend& backend,
                            const GraphOptions& options) {
  if (options.batch < 1) {
    throw ConfigError(
        fmt::format("the batch of {} must be at least 1, found {}", model.name, options.batch));
  }
  LoweredNetwork network = lower_network(model, backend, options);
  plan_rounding(network, backend);
  if (options.training) plan_backward(network.plan, backend);
  place_values(network.plan);
  for (const auto& op : network.plan.operations) {
    network.plan.workspace_bytes = std::max(network.plan.workspace_bytes, op->workspace_bytes());
  }
  return network;
}

// A device gives no buffer of nothing.
Buffer allocate_some(Device& device, std::size_t bytes, MemoryCategory category,
                     Sharing sharing = Sharing::process_private) {
  return bytes == 0 ? Buffer() : device.allocate(bytes, category, sharing);
}

// The longest parameter as PyTorch has it: import and export bring one at a time to the device.
std::size_t conversion_bytes(const ParameterPlan& parameters) {
  std::size_t most = 0;
  for (const ParameterInfo& parameter : parameters.parameters) {
    most = std::max(most, ops::TensorLayout::plain(parameter.shape).bytes);
  }
  return most;
}

LoweredNetwork ask_for_memory(LoweredNetwork network, const Device& device,
                              const GraphOptions& options) {
  if (!options.admit) return network;
  const std::size_t flat = network.parameters.flat_bytes;
  MemoryNeeds needs(device);
  needs.add(MemoryCategory::weights, flat, options.weight_sharing);
  needs.add(MemoryCategory::weights, rounded_bytes(network));
  if (options.training) needs.add(MemoryCategory::gradients, flat, options.gradient_sharing);
  needs.add(MemoryCategory::activations, network.plan.arena_bytes);
  needs.add(MemoryCategory::workspace, network.plan.workspace_bytes);
  needs.add(MemoryCategory::workspace, conversion_bytes(network.parameters));
  options.admit(network.parameters, needs);
  return network;
}

std::string layouts_of(const Plan& plan, const Step& step) {
  std::string text;
  for (const int input : step.inputs) {
    text += layout_at(plan, input, step.micro).tag + (input == step.inputs.back() ? "" : ", ");
  }
  return text + " -> " + layout_at(plan, step.output, step.micro).tag;
}

// Bytes that the output and the saved state of a step occupy.
std::size_t kept_bytes(const Plan& plan, const Step& step) {
  std::size_t bytes = 0;
  for (const int value : {step.output, step.saved}) {
    if (value == kNoValue) continue;
    const Value& v = plan.values[static_cast<std::size_t>(value)];
    bytes += v.stride_bytes == 0 ? v.layout.bytes : v.stride_bytes * plan.calls(true);
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
        rounded(allocate_some(d, rounded_bytes(network), MemoryCategory::weights)),
        plan(std::move(network.plan)),
        parameters(std::move(network.parameters)),
        weights(allocate_some(d, parameters.flat_bytes, MemoryCategory::weights,
                              options.weight_sharing)),
        gradients(options.training
                      ? allocate_some(d, parameters.flat_bytes, MemoryCategory::gradients,
                                      options.gradient_sharing)
                      : Buffer()),
        arena(allocate_some(d, plan.arena_bytes, MemoryCategory::activations)),
        workspace(allocate_some(d, plan.workspace_bytes, MemoryCategory::workspace)),
        program(
            plan, parameters,
            {arena.view(), workspace.view(), weights.view(), gradients.view(), rounded.view()}) {
    for (const Step& step : plan.backward) {
      if (step.parameters.empty() || step.op->accumulates_weight_gradients()) continue;
      cannot_accumulate = step.name;
    }
  }

  float* floats_of(int value) const {
    const std::size_t offset = plan.values[static_cast<std::size_t>(value)].offset_bytes;
    return reinterpret_cast<float*>(arena.data() + offset);
  }

  ModelSpec model;
  Device& device;
  ops::OpBackend& backend;
  Buffer rounded;  // the weights of the last forward in bf16, where operations read them so
  Plan plan;
  ParameterPlan parameters;
  Buffer weights, gradients, arena, workspace;
  Program program;
  std::string cannot_accumulate;  // a step whose operation overwrites gradients
  bool forward_done = false;      // since the last backward
};

Graph::Graph(const ModelSpec& model, Device& device, ops::OpBackend& backend,
             const GraphOptions& options)
    : impl_(std::make_unique<Impl>(
          model, device, backend, options,
          ask_for_memory(plan_network(model, backend, options), device, options))) {}

Graph::~Graph() = default;

const ParameterPlan& Graph::plan() const { return impl_->parameters; }
const ModelSpec& Graph::model() const { return impl_->model; }
std::int64_t Graph::batch() const { return impl_->plan.batch; }
std::int64_t Graph::micro_batch() const { return impl_->plan.micro_batch; }
const Buffer& Graph::weights() const { return impl_->weights; }

const Buffer& Graph::gradients() const {
  ensure(impl_->plan.output_gradient != kNoValue, "a forward-only graph has no gradients");
  return impl_->gradients;
}

float* Graph::output() const { return impl_->floats_of(impl_->plan.logits); }

float* Graph::output_gradient() const {
  ensure(impl_->plan.output_gradient != kNoValue, "a forward-only graph has no output gradient");
  return impl_->floats_of(impl_->plan.output_gradient);
}

std::string Graph::describe() const {
  const Plan& plan = impl_->plan;
  std::string text;
  for (const Step& step : plan.forward) {
    text += fmt::format("{}: {}, {}, {} x {} samples, {} bytes\n", step.name,
                        step.op->description(), layouts_of(plan, step), plan.calls(step.micro),
                        step.micro ? plan.micro_batch : plan.batch, kept_bytes(plan, step));
  }
  return text;
}

const std::vector<std::string>& Graph::call_names() const { return impl_->program.call_names(); }

void Graph::observe_layers(LayerObserver* observer) { impl_->program.observe(observer); }

double Graph::step_flops() const {
  const Plan& plan = impl_->plan;
  double flops = 0;
  for (const std::vector<Step>* steps : {&plan.forward, &plan.backward}) {
    for (const Step& step : *steps) {
      const double once = step.direction == Direction::forward ? step.op->forward_flops()
                                                               : step.op->backward_flops();
      flops += once * static_cast<double>(plan.calls(step.micro));
    }
  }
  return flops;
}

void Graph::forward(Stream& stream, const float* input) {
  impl_->program.forward(stream, input);
  impl_->forward_done = true;
}

void Graph::backward(Stream& stream, const GradientReady& ready, bool accumulate) {
  ensure(impl_->plan.output_gradient != kNoValue, "a forward-only graph has no backward");
  // Backward's gradients overwrite activations that it has used.
  ensure(impl_->forward_done, "backward needs a forward of its own before it");
  if (accumulate && !impl_->cannot_accumulate.empty()) {
    throw DeviceError(fmt::format("the backend {} cannot accumulate the weight gradients of {}",
                                  impl_->backend.name(), impl_->cannot_accumulate));
  }
  impl_->forward_done = false;
  impl_->program.backward(stream, ready, accumulate);
}

std::vector<float> Graph::export_parameter(std::size_t i, const BufferView& flat) const {
  const ParameterInfo& parameter = impl_->parameters.parameters.at(i);
  ensure(flat.bytes == impl_->parameters.flat_bytes, "a flat buffer has {} bytes, the plan {}",
         flat.bytes, impl_->parameters.flat_bytes);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  const Buffer staging = impl_->device.allocate(plain.bytes, MemoryCategory::workspace);
  impl_->backend.convert(parameter.layout, flat.data + parameter.offset_bytes, plain,
                         staging.data());
  std::vector<float> values(plain.bytes / sizeof(float));
  const auto stream = impl_->device.make_stream();
  impl_->device.copy(*stream, {reinterpret_cast<std::byte*>(values.data()), plain.bytes},
                     staging.view());
  stream->synchronize();
  return values;
}

void Graph::import_parameter(std::size_t i, std::span<const float> values, const BufferView& flat) {
  const ParameterInfo& parameter = impl_->parameters.parameters.at(i);
  const auto plain = ops::TensorLayout::plain(parameter.shape);
  ensure(flat.bytes == impl_->parameters.flat_bytes, "a flat buffer has {} bytes, the plan {}",
         flat.bytes, impl_->parameters.flat_bytes);
  ensure(values.size_bytes() == plain.bytes, "{} has {} values, found {}", parameter.name,
         plain.bytes / sizeof(float), values.size());
  const Buffer staging = impl_->device.allocate(plain.bytes, MemoryCategory::workspace);
  const auto stream = impl_->device.make_stream();
  // The copy only reads its source; BufferView has no constant form.
  auto* source = reinterpret_cast<std::byte*>(const_cast<float*>(values.data()));
  impl_->device.copy(*stream, staging.view(), {source, plain.bytes});
  stream->synchronize();
  impl_->backend.convert(plain, staging.data(), parameter.layout,
                         flat.data + parameter.offset_bytes);
}

}  // namespace ddpbench::nn
