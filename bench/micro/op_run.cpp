// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/micro/op_run.h"

#include <algorithm>
#include <bit>
#include <random>

namespace ddpbench::ops {
namespace {

constexpr std::size_t kPeriod = std::size_t{1} << 18;

std::vector<std::byte> pattern(DataType type) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(kPeriod * size_of(type));
  for (std::size_t i = 0; i < kPeriod; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(normal(generator));
    std::byte* const to = bytes.data() + i * size_of(type);
    if (type == DataType::bf16) {
      const auto half = static_cast<std::uint16_t>(bits >> 16);
      std::copy_n(reinterpret_cast<const std::byte*>(&half), sizeof(half), to);
    } else {
      std::copy_n(reinterpret_cast<const std::byte*>(&bits), size_of(type), to);
    }
  }
  return bytes;
}

Conv2dDesc conv3x3_desc(const TensorLayout& input, std::int64_t out_channels,
                        bool needs_grad_input) {
  return {.input = input,
          .out_channels = out_channels,
          .window = square_window(3, 1, 1),
          .needs_grad_input = needs_grad_input};
}

MaxPool2dDesc halving(const TensorLayout& input) {
  return {.input = input, .window = square_window(2, 2), .fuse_relu = true};
}

}  // namespace

Buffer random_values(const Machine& machine, std::size_t bytes, DataType type) {
  Buffer buffer = machine.device.allocate(bytes, MemoryCategory::activations);
  std::vector<std::byte> values = pattern(type);
  for (std::size_t at = 0; at < bytes; at += values.size()) {
    const std::size_t part = std::min(values.size(), bytes - at);
    machine.device.copy(machine.stream, {buffer.data() + at, part}, {values.data(), part});
  }
  machine.stream.synchronize();
  return buffer;
}

Buffer upload(const Machine& machine, const void* host, std::size_t bytes) {
  Buffer buffer = machine.device.allocate(bytes, MemoryCategory::input);
  // The copy only reads its source; BufferView has no constant form.
  auto* const source = static_cast<std::byte*>(const_cast<void*>(host));
  machine.device.copy(machine.stream, buffer.view(), {source, bytes});
  machine.stream.synchronize();
  return buffer;
}

OpRun::OpRun(const Machine& machine, std::unique_ptr<Op> op, bool input_gradients)
    : machine_(machine), op_(std::move(op)), input_gradients_(input_gradients) {
  for (std::size_t i = 0; i < op_->plan().inputs.size(); ++i) {
    add(inputs_, op_->plan().inputs[i]);
    if (input_gradients) {
      add(grad_inputs_, op_->plan().inputs[i]);
    } else {
      grad_inputs_.push_back(nullptr);
    }
  }
  for (const ParameterSpec& spec : op_->plan().parameters) {
    add(parameters_, spec.layout);
    if (op_->plan().reads_bf16_weights) add(bf16_weights_, in_bf16(spec.layout));
    add(grad_parameters_, spec.layout);
  }
  for (const StateSpec& spec : op_->plan().state) {
    const std::size_t bytes =
        static_cast<std::size_t>(element_count(spec.shape)) * size_of(spec.type);
    memory_.push_back(upload(machine, std::vector<std::byte>(bytes).data(), bytes));
    state_.push_back(memory_.back().data());
  }
  const TensorLayout& output = op_->plan().output;
  output_ = random_values(machine, output.bytes, output.type);
  grad_output_ = random_values(machine, output.bytes, output.type);
  saved_ = machine.device.allocate(op_->plan().saved_bytes, MemoryCategory::activations);
  workspace_ = machine.device.allocate(op_->plan().workspace_bytes, MemoryCategory::workspace);
  forward();
}

void OpRun::forward() {
  op_->forward(machine_.stream, {.inputs = inputs_,
                                 .output = output_.data(),
                                 .parameters = parameters_,
                                 .saved = saved_.data(),
                                 .workspace = workspace_.data(),
                                 .bf16_weights = bf16_weights_,
                                 .state = state_});
}

void OpRun::backward() {
  op_->backward(machine_.stream, {.inputs = inputs_,
                                  .output = output_.data(),
                                  .grad_output = grad_output_.data(),
                                  .grad_inputs = grad_inputs_,
                                  .parameters = parameters_,
                                  .grad_parameters = grad_parameters_,
                                  .saved = saved_.data(),
                                  .workspace = workspace_.data(),
                                  .bf16_weights = bf16_weights_});
}

template <typename Pointer>
void OpRun::add(std::vector<Pointer>& pointers, const TensorLayout& layout) {
  memory_.push_back(random_values(machine_, layout.bytes, layout.type));
  pointers.push_back(memory_.back().data());
}

TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent, DataType type) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

std::unique_ptr<Op> conv3x3(OpBackend& backend, const TensorLayout& input,
                            std::int64_t out_channels, bool needs_grad_input) {
  return backend.make(conv3x3_desc(input, out_channels, needs_grad_input));
}

std::unique_ptr<Op> conv3x3_halved(OpBackend& backend, const TensorLayout& input,
                                   std::int64_t out_channels, bool needs_grad_input) {
  const OpDesc chain[] = {conv3x3_desc(input, out_channels, needs_grad_input), halving({})};
  return backend.fuse(chain).op;
}

std::unique_ptr<Op> halve(OpBackend& backend, const TensorLayout& input) {
  return backend.make(halving(input));
}

std::unique_ptr<Op> halve_to_plain(OpBackend& backend, const TensorLayout& input) {
  const TensorLayout plain = TensorLayout::plain({});
  const OpDesc chain[] = {halving(input), ReorderDesc{.from = plain, .to = plain}};
  return backend.fuse(chain).op;
}

}  // namespace ddpbench::ops
