// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How ops_bench times a call on a device, and the operations with all the memory that they work on.
//
// Counted bytes are the least that a call must move between memory and processor. That is every
// operand once; an implementation's extra passes, workspace and copies do not count. Measured time
// times the bandwidth over these bytes is the distance from the memory bound (Williams, Waterman
// and Patterson's roofline, CACM 52(4), 2009).
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/ops/backend.h"

namespace ddpbench::ops {

// A device with its operations. It must outlive what is made on it.
struct Machine {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<OpBackend> backend;
  DataType type = DataType::fp32;  // of the backend's activations
};

// A device that cases run on, "threads:2" or "bf16".
struct Variant {
  std::string name;
  std::function<std::shared_ptr<Machine>()> machine;
};

// A call, and the work of one.
struct Timed {
  std::function<void()> call;
  double bytes = 0;
  double flops = 0;
  std::string label = {};
};

// Registers a benchmark for each variant and number of samples or elements per call. Its counters:
// bytes (of a call), bytes_per_s, FLOP_per_s (a multiply-add is 2) and samples_per_s. An Error of
// `prepare` is the benchmark's, and the others go on.
void register_case(const std::string& name, const std::vector<Variant>& variants,
                   const std::vector<std::int64_t>& sizes,
                   const std::function<Timed(Machine& machine, std::int64_t size)>& prepare);

// Device memory that lives as long as this object.
class Operands {
 public:
  explicit Operands(Machine& on) : machine(on) {}

  std::byte* room(std::size_t bytes, MemoryCategory category) {
    return buffers_.emplace_back(machine.device->allocate(bytes, category)).data();
  }
  // Normally distributed values that repeat every 2^18; uint8: any bytes.
  std::byte* random(std::size_t bytes, DataType type) {
    constexpr std::size_t kPeriod = std::size_t{1} << 18;
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<std::byte> values(kPeriod * size_of(type));
    for (std::size_t at = 0; at < values.size(); at += size_of(type)) {
      auto bits = std::bit_cast<std::uint32_t>(normal(generator));
      if (type == DataType::bf16) bits >>= 16;
      std::copy_n(reinterpret_cast<const std::byte*>(&bits), size_of(type), values.data() + at);
    }
    std::byte* const to = room(bytes, MemoryCategory::activations);
    for (std::size_t at = 0; at < bytes; at += values.size()) {
      const std::size_t part = std::min(values.size(), bytes - at);
      machine.device->copy(*machine.stream, {to + at, part}, {values.data(), part});
    }
    machine.stream->synchronize();
    return to;
  }
  float* floats(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    return reinterpret_cast<float*>(random(bytes, DataType::fp32));
  }
  template <typename T>
  T* upload(std::vector<T> values) {
    const std::size_t bytes = values.size() * sizeof(T);
    std::byte* const to = room(bytes, MemoryCategory::input);
    machine.device->copy(*machine.stream, {to, bytes},
                         {reinterpret_cast<std::byte*>(values.data()), bytes});
    machine.stream->synchronize();
    return reinterpret_cast<T*>(to);
  }

  Machine& machine;

 private:
  std::vector<Buffer> buffers_;
};

class OpRun {
 public:
  // Runs forward once, so that backward has what forward saves. With `input_gradients`, backward
  // computes those, too.
  OpRun(Machine& machine, std::unique_ptr<Op> op, bool input_gradients = true)
      : operands_(machine), op_(std::move(op)) {
    for (std::size_t i = 0; i < op_->plan().inputs.size(); ++i) {
      inputs_.push_back(memory(op_->plan().inputs[i]));
      grad_inputs_.push_back(input_gradients ? memory(op_->plan().inputs[i]) : nullptr);
    }
    for (const ParameterSpec& spec : op_->plan().parameters) {
      parameters_.push_back(memory(spec.layout));
      if (const DataType type = op_->plan().weight_type; type != DataType::fp32)
        weight_copies_.push_back(memory(with_type(spec.layout, type)));
      grad_parameters_.push_back(memory(spec.layout));
    }
    for (const StateSpec& spec : op_->plan().state) {
      const auto count = static_cast<std::size_t>(element_count(spec.shape));
      state_.push_back(operands_.upload(std::vector<std::byte>(count * size_of(spec.type))));
    }
    output_ = memory(op_->plan().output);
    grad_output_ = memory(op_->plan().output);
    saved_ = operands_.room(op_->plan().saved_bytes, MemoryCategory::activations);
    workspace_ = operands_.room(op_->plan().workspace_bytes, MemoryCategory::workspace);
    forward();
  }

  void forward() {
    op_->forward(*operands_.machine.stream, {.inputs = inputs_,
                                             .output = output_,
                                             .parameters = parameters_,
                                             .saved = saved_,
                                             .workspace = workspace_,
                                             .weight_copies = weight_copies_,
                                             .state = state_});
  }
  void backward() {
    op_->backward(*operands_.machine.stream, {.inputs = inputs_,
                                              .output = output_,
                                              .grad_output = grad_output_,
                                              .grad_inputs = grad_inputs_,
                                              .parameters = parameters_,
                                              .grad_parameters = grad_parameters_,
                                              .saved = saved_,
                                              .workspace = workspace_,
                                              .weight_copies = weight_copies_});
  }
  const Op& op() const { return *op_; }

 private:
  std::byte* memory(const TensorLayout& layout) {
    return operands_.random(layout.bytes, layout.type);
  }

  Operands operands_;
  std::unique_ptr<Op> op_;
  std::vector<const void*> inputs_, parameters_, weight_copies_;
  std::vector<void*> grad_inputs_, grad_parameters_, state_;
  std::byte *output_ = nullptr, *grad_output_ = nullptr, *saved_ = nullptr, *workspace_ = nullptr;
};

// The bytes of one call. Forward reads inputs and parameters (narrower ones where it reads
// such copies), and writes the output and what is saved. Backward reads the output's gradient, what
// was saved, and the inputs and output that the operation needs; it writes the parameters'
// gradients. With `input_gradients` it also reads the parameters (as forward does) and writes the
// inputs' gradients.
inline double op_bytes(const OpPlan& plan, bool is_forward, bool input_gradients) {
  std::size_t inputs = 0, needed = 0, parameters = 0;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    inputs += plan.inputs[i].bytes;
    if (i < plan.needed_inputs) needed += plan.inputs[i].bytes;
  }
  for (const ParameterSpec& spec : plan.parameters) parameters += spec.layout.bytes;
  const std::size_t read = inputs + parameters * size_of(plan.weight_type) / sizeof(float);
  const std::size_t output = plan.output.bytes, saved = plan.saved_bytes;
  if (is_forward) return static_cast<double>(read + output + saved);
  return static_cast<double>(output * (plan.needs_output ? 2 : 1) + saved + parameters + needed +
                             (input_gradients ? read : 0));
}

// `op` in one of its directions.
inline Timed timed(Machine& machine, std::unique_ptr<Op> op, bool is_forward,
                   bool input_gradients = true) {
  const auto run = std::make_shared<OpRun>(machine, std::move(op), input_gradients);
  const OpPlan& plan = run->op().plan();
  return {[=] { is_forward ? run->forward() : run->backward(); },
          op_bytes(plan, is_forward, input_gradients),
          is_forward ? plan.forward_flops : plan.backward_flops, plan.description};
}

// The layout [batch, channels, extent, extent].
inline TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent,
                          DataType type = DataType::fp32) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

// A 3x3 convolution with a bias, which keeps the extent.
inline Conv2dDesc conv3x3(const TensorLayout& input, std::int64_t out_channels,
                          bool needs_grad_input = true) {
  return {.input = input,
          .out_channels = out_channels,
          .window = square_window(3, 1, 1),
          .needs_grad_input = needs_grad_input};
}

}  // namespace ddpbench::ops
