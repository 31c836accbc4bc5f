// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Operations on any device with all the memory that they work on, and those of SimpleCNN
// (configs/models/simple_cnn.json).
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "kernels/ops/backend.h"
#include "kernels/ops/traffic.h"

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
      if (op_->plan().reads_bf16_weights) bf16_weights_.push_back(memory(in_bf16(spec.layout)));
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
                                            .bf16_weights = bf16_weights_,
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
                                             .bf16_weights = bf16_weights_});
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
  std::vector<const void*> inputs_, parameters_, bf16_weights_;
  std::vector<void*> grad_inputs_, grad_parameters_, state_;
  std::byte *output_ = nullptr, *grad_output_ = nullptr, *saved_ = nullptr, *workspace_ = nullptr;
};

// The bytes that one call must move.
inline double op_bytes(const Op& op, bool is_forward, bool input_gradients) {
  return is_forward ? forward_bytes(op) : backward_bytes(op, input_gradients);
}

// The layout [batch, channels, extent, extent].
inline TensorLayout image(std::int64_t batch, std::int64_t channels, std::int64_t extent,
                          DataType type = DataType::fp32) {
  return TensorLayout::plain({batch, channels, extent, extent}, type);
}

// A 3x3 convolution with a bias, which keeps the extent.
inline Conv2dDesc conv3x3(const TensorLayout& input, std::int64_t out_channels,
                          bool needs_grad_input) {
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

// An operation of SimpleCNN, or of networks like it, on a batch.
struct OpCase {
  const char* name;
  bool products;  // bound by arithmetic, too
  OpDesc (*describe)(OpBackend& backend, std::int64_t batch, DataType type);
  bool input_gradients = true;
};

inline const OpCase kConv1 = {"conv1", true,
                              [](OpBackend&, std::int64_t n, DataType) -> OpDesc {
                                return conv3x3(image(n, 1, 28), 32, false);
                              },
                              false};
inline const OpCase kOpCases[] = {
    {"conv2", true,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc {
       return conv3x3(maps(b, n, 32, 14), 64, true);
     }},
    {"fc1", true,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc {
       return LinearDesc{.input = maps(b, n, 64, 7), .out_features = 128, .fuse_relu = true};
     }},
    {"fc2", true,
     [](OpBackend&, std::int64_t n, DataType type) -> OpDesc {
       return LinearDesc{.input = TensorLayout::plain({n, 128}, type), .out_features = 10};
     }},
    {"pool1", false,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc { return halve(maps(b, n, 32, 28)); }},
    {"pool2", false,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc { return halve(maps(b, n, 64, 14)); }},
    {"relu", false,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc { return ReluDesc{maps(b, n, 32, 28)}; }},
    {"add", false,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc { return AddDesc{maps(b, n, 32, 28)}; }},
    {"reorder", false,
     [](OpBackend& b, std::int64_t n, DataType) -> OpDesc {
       const TensorLayout to = maps(b, n, 32, 28);
       return ReorderDesc{image(n, 32, 28, to.type), to};
     }},
};

// What stands around a network, as calls that own their memory. The backend must outlive them.
using Call = std::function<void()>;

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

inline std::vector<std::int32_t> labels_of(std::int64_t batch, std::int64_t classes) {
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch; ++i) labels.push_back(static_cast<std::int32_t>(i % classes));
  return labels;
}

inline Call loss_call(const Machine& machine, OpBackend& backend, std::int64_t batch,
                      std::int64_t classes) {
  const auto memory = std::make_shared<Operands>(machine);
  const CrossEntropyDesc desc{.batch = batch, .classes = classes};
  const LossArgs args{
      .logits = memory->floats(batch * classes),
      .labels = memory->upload(labels_of(batch, classes)),
      .samples = batch,
      .grad_scale = 1e-3F,
      .grad_logits = memory->floats(batch * classes),
      .totals = memory->upload(std::vector<LossTotals>(1)),
      .workspace = memory->room(backend.loss_workspace_bytes(desc), MemoryCategory::workspace)};
  return [=, &backend] { backend.loss(memory->machine.stream, desc, args); };
}

}  // namespace ddpbench::ops
