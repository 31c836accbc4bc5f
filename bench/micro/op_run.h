// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What both programs time: operations of networks on any device, with all the memory that they work
// on, and what stands around a network in a step; and the bytes of each.
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

// Both must outlive the objects that are made on them.
struct Machine {
  Device& device;
  Stream& stream;
};

// Device memory that lives as long as this object.
class Operands {
 public:
  explicit Operands(const Machine& on) : machine(on) {}

  std::byte* room(std::size_t bytes, MemoryCategory category) {
    return buffers_.emplace_back(machine.device.allocate(bytes, category)).data();
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
      machine.device.copy(machine.stream, {to + at, part}, {values.data(), part});
    }
    machine.stream.synchronize();
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
    machine.device.copy(machine.stream, {to, bytes},
                        {reinterpret_cast<std::byte*>(values.data()), bytes});
    machine.stream.synchronize();
    return reinterpret_cast<T*>(to);
  }

  Machine machine;

 private:
  std::vector<Buffer> buffers_;
};

class OpRun {
 public:
  // Runs forward once, so that backward has what forward saves. With `input_gradients`, backward
  // computes those, too.
  OpRun(const Machine& machine, std::unique_ptr<Op> op, bool input_gradients = true)
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
    op_->forward(operands_.machine.stream, {.inputs = inputs_,
                                            .output = output_,
                                            .parameters = parameters_,
                                            .saved = saved_,
                                            .workspace = workspace_,
                                            .weight_copies = weight_copies_,
                                            .state = state_});
  }
  void backward() {
    op_->backward(operands_.machine.stream, {.inputs = inputs_,
                                             .output = output_,
                                             .grad_output = grad_output_,
                                             .grad_inputs = grad_inputs_,
                                             .parameters = parameters_,
                                             .grad_parameters = grad_parameters_,
                                             .saved = saved_,
                                             .workspace = workspace_,
                                             .weight_copies = weight_copies_});
  }
  void run(bool is_forward) { is_forward ? forward() : backward(); }
  double flops(bool is_forward) const {
    return is_forward ? op_->plan().forward_flops : op_->plan().backward_flops;
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

// Max-pool 2x2 with ReLU.
inline MaxPool2dDesc halve(const TensorLayout& input) {
  return {.input = input, .window = square_window(2, 2), .fuse_relu = true};
}

// The layout of a convolution's maps, from batch 1: no algorithm is searched for a large one.
inline TensorLayout maps(OpBackend& backend, std::int64_t batch, std::int64_t channels,
                         std::int64_t extent) {
  TensorLayout layout = backend.make(conv3x3(image(1, 1, extent), channels, false))->plan().output;
  layout.shape[0] = batch;
  layout.bytes *= static_cast<std::size_t>(batch);
  return layout;
}

// An operation of a network.
struct OpCase {
  std::string name;
  bool products;              // bound by arithmetic, too
  std::vector<OpDesc> chain;  // of several, the backend makes one
  bool input_gradients = true;

  std::unique_ptr<Op> make(OpBackend& backend) const {
    return chain.size() == 1 ? backend.make(chain[0]) : backend.fuse(chain).op;
  }
};

// The operations of SimpleCNN (configs/models/simple_cnn.json), and of networks like it, on `n`
// samples. `type`: of the backend's activations.
inline std::vector<OpCase> simple_cnn(OpBackend& backend, std::int64_t n, DataType type) {
  const TensorLayout map1 = maps(backend, n, 32, 28), map2 = maps(backend, n, 64, 14);
  const TensorLayout pooled1 = maps(backend, n, 32, 14), pooled2 = maps(backend, n, 64, 7);
  const TensorLayout hidden = TensorLayout::plain({n, 128}, type);
  const LinearDesc fc1{.input = pooled2, .out_features = 128, .fuse_relu = true};
  std::vector<OpCase> cases = {
      {"conv1", true, {conv3x3(image(n, 1, 28), 32, false)}, false},
      {"conv2", true, {conv3x3(pooled1, 64)}},
      {"conv2_pool2", true, {conv3x3(pooled1, 64), halve({})}},
      {"fc1", true, {fc1}},
      {"fc2", true, {LinearDesc{.input = hidden, .out_features = 10}}},
      {"pool1", false, {halve(map1)}},
      {"pool2", false, {halve(map2)}},
      {"relu", false, {ActivationDesc{map1}}},
      {"add", false, {AddDesc{map1}}},
      {"reorder", false, {ReorderDesc{image(n, 32, 28, map1.type), map1}}}};
  if (type == DataType::bf16) {
    const TensorLayout plain = TensorLayout::plain({n * 1024});
    cases.push_back({"rounding", false, {ReorderDesc{plain, with_type(plain, type)}}});
  }
  return cases;
}

// What stands around a network, as calls that own their memory, and the bytes of each; all fp32.
// The backend must outlive them.
using Call = std::function<void()>;

// It reads and writes weights and slots, and reads gradients.
inline double optimizer_bytes(const OptimizerOptions& options, std::int64_t elements) {
  return static_cast<double>(sizeof(float) * (3 + 2 * slot_count(options))) *
         static_cast<double>(elements);
}

inline Call optimizer_call(const Machine& machine, OpBackend& backend,
                           const OptimizerOptions& options, std::int64_t count) {
  const auto memory = std::make_shared<Operands>(machine);
  const auto elements = static_cast<std::size_t>(count);
  const OptimizerArgs args{
      .weights = memory->floats(count),
      .gradients = memory->floats(count),
      .state = memory->room(optimizer_state_bytes(options, elements), MemoryCategory::optimizer),
      .count = elements,
      .options = options};
  return [=, &backend] { backend.update(memory->machine.stream, args); };
}

// It reads logits and labels, and writes the logits' gradient.
inline double loss_bytes(std::int64_t batch, std::int64_t classes) {
  return sizeof(float) * static_cast<double>(batch * (2 * classes + 1));
}

inline Call loss_call(const Machine& machine, OpBackend& backend, std::int64_t batch,
                      std::int64_t classes) {
  const auto memory = std::make_shared<Operands>(machine);
  const CrossEntropyDesc desc{.batch = batch, .classes = classes};
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<std::int32_t>(i % classes));
  const LossArgs args{
      .logits = memory->floats(batch * classes),
      .labels = memory->upload(labels),
      .samples = batch,
      .grad_scale = 1e-3F,
      .grad_logits = memory->floats(batch * classes),
      .totals = memory->upload(std::vector<LossTotals>(1)),
      .workspace = memory->room(backend.loss_workspace_bytes(desc), MemoryCategory::workspace)};
  return [=, &backend] { backend.loss(memory->machine.stream, desc, args); };
}

}  // namespace ddpbench::ops
