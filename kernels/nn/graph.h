// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Graph: a network planned on one device for one batch size.
//
// Planning fuses layers (plan/fusion.h), inserts reorders where layouts differ, puts parameters in
// one flat buffer, lets activations share memory, and runs the leading part in micro-batches where
// that keeps its maps in cache. After construction no call allocates. Only the device's leading
// thread uses a graph. The loss is no part of it, so that DataParallel can gather the outputs
// before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/nn/model/model.h"
#include "kernels/nn/plan/lowering.h"
#include "kernels/nn/plan/parameter_plan.h"
#include "kernels/nn/plan/plan.h"
#include "kernels/nn/program.h"
#include "kernels/ops/backend.h"
#include "kernels/runtime/device.h"

namespace ddpbench::nn {

class Graph {
 public:
  // `device` and `backend` must outlive the graph. Throws ConfigError or DeviceError.
  Graph(const ModelSpec& model, Device& device, ops::OpBackend& backend,
        const GraphOptions& options);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  const ParameterPlan& plan() const { return network_.parameters; }
  const ModelSpec& model() const { return model_; }
  std::int64_t batch() const { return network_.plan.batch; }
  // Samples of a micro-batch of the micro-batched part; 0: none.
  std::int64_t micro_batch() const { return network_.plan.micro_batch; }
  // Calls of a forward and a backward pass in order: "conv1+relu1 forward, micro-batch 3 of 8".
  const std::vector<std::string>& call_names() const { return program_.call_names(); }

  // Flat, plan().weight_bytes; with units nothing, but between hold_whole() and drop_whole().
  const Buffer& weights() const { return plan().has_units() ? whole_ : memory_.weights; }
  const Buffer& resident_weights() const { return memory_.weights; }  // what operations read
  // Returns the weights of a trained parameter. With units it has the part that this rank keeps,
  // which may be nothing.
  BufferView kept_weights(std::size_t i) const;
  void hold_whole();
  void drop_whole() { whole_ = {}; }
  const Buffer& gradients() const;  // flat, same order; REQUIRES: training
  // Flat, plan().state_bytes; empty where no operation has any.
  const Buffer& state() const { return memory_.state; }

  // Tells `observer`, which must outlive its use, of every call from now on. Null ends that.
  void observe_layers(LayerObserver* observer) { program_.observe(observer); }

  // Runs the network on `input`: [batch, c, h, w] plain fp32 in device memory, which must stay
  // unchanged until backward is done. A graph that is not for training always evaluates. `places`
  // are those of the batch's samples in the global batch, by which layers draw.
  void forward(Stream& stream, const float* input, ops::Mode mode = ops::Mode::training,
               const ops::SamplePlaces& places = {});
  // The logits of output k (ModelSpec::output_layer) from the last forward: [batch, classes] or
  // [batch, classes, h, w] plain fp32, valid until the next forward.
  float* output(std::size_t k = 0) const;
  // Where its loss writes its gradient, of the same shape. REQUIRES: training.
  float* output_gradient(std::size_t k = 0) const;
  // The input's gradient from the last backward, as the input lies, until the next forward.
  // REQUIRES: GraphOptions::input_gradient.
  float* input_gradient() const;
  // Computes the gradients of all parameters from those of all outputs, or adds them to the
  // gradient buffer. `ready` may be empty. REQUIRES: a graph for training; a forward pass in
  // training since the last backward, whose gradients overwrote activations; unchanged weights
  // since.
  void backward(Stream& stream, const GradientReady& ready = {}, bool accumulate = false);

  // Queues the end of a training step: layers then draw by the next step's number.
  void end_step(Stream& stream);
  // Sets the number of steps that have ended, and waits until the device has it.
  void set_steps(Stream& stream, std::int64_t steps);

  // Copies to and from the host in PyTorch's shape and order, fp32. They block until done. `flat`
  // is a buffer in the plan's order (weights(), gradients(), optimizer state).
  std::vector<float> export_parameter(std::size_t i, const BufferView& flat) const;
  void import_parameter(std::size_t i, std::span<const float> values, const BufferView& flat);
  // The same for tensor i of the state, as its elements lie in memory.
  std::vector<std::byte> export_state(std::size_t i) const;
  void import_state(std::size_t i, std::span<const std::byte> bytes);

 private:
  struct Memory {
    Buffer weight_copies;  // of the last forward, where operations read any
    Buffer weights, gradients, state, arena, workspace;
    Buffer steps;  // the number of training steps, where operations draw by it

    std::int64_t* step_count() const { return reinterpret_cast<std::int64_t*>(steps.data()); }
    ProgramMemory views() const;
  };
  static Memory allocate_memory(const LoweredNetwork& network, Device& device,
                                const GraphOptions& options);
  // Copies a tensor in device memory to the host, after all work that was queued before; and back.
  void to_host(const ops::TensorLayout& layout, const std::byte* at, const ops::TensorLayout& plain,
               std::span<std::byte> host) const;
  void to_device(std::span<const std::byte> host, const ops::TensorLayout& plain,
                 const ops::TensorLayout& layout, std::byte* at);
  float* floats_of(int value) const;

  ModelSpec model_;
  Device& device_;
  ops::OpBackend& backend_;
  LoweredNetwork network_;
  Memory memory_;
  WeightStore* store_;
  Buffer whole_;  // all weights, where there are units and somebody asked for them
  Program program_;
  bool forward_done_ = false;  // in training, since the last backward
};

}  // namespace ddpbench::nn
