// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of one operation: planned once for fixed shapes, then run without allocating.
//
// An Op holds no tensors. The Graph asks it for layouts and sizes, gives it memory, and calls
// forward and backward with pointers into device memory. The batch dimension is outermost in every
// activation layout, so sample ranges are contiguous and the graph can run micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kernels/ops/batch_parts.h"
#include "kernels/ops/random_draw.h"
#include "kernels/ops/tensor_layout.h"
#include "kernels/ops/window2d.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

// A trainable tensor of an operation.
struct ParameterSpec {
  std::string name;  // "weight", "bias"; the graph puts the layer's name before it
  Shape shape;       // as PyTorch stores it: conv [out, in, kh, kw], linear [out, in], bias [out]
  TensorLayout layout;      // how this backend stores weight and gradient (one layout for both)
  std::int64_t fan_in = 0;  // inputs of one output unit; PyTorch's default initialisation needs it
  std::optional<float> start = {};  // the value of all elements at step 0; none: drawn by fan_in
};

// What an operation keeps from step to step and no gradient changes: PyTorch's "buffers", such as
// running statistics. Plain layout; only forward in training changes it.
struct StateSpec {
  std::string name;                // "running_mean"; the graph puts the layer's name before it
  Shape shape;                     // {}: a single number
  DataType type = DataType::fp32;  // or int64
  double start = 0;                // the value of all elements at step 0
};

// What a forward pass is for. An evaluation changes no state, uses that of the training so far in
// place of statistics of its own batch, and has no backward.
enum class Mode : std::uint8_t { training, evaluation };

struct ForwardArgs {
  std::span<const void* const> inputs;        // in input_layout(i)
  void* output = nullptr;                     // in output_layout()
  std::span<const void* const> parameters;    // in parameters()[i].layout
  void* saved = nullptr;                      // saved_bytes(); kept for backward
  void* workspace = nullptr;                  // workspace_bytes(); free between calls
  std::span<const void* const> bf16_weights;  // parameters in bf16; if reads_bf16_weights()
  std::span<void* const> state = {};          // in the order of state()
  Mode mode = Mode::training;
  RandomDraw draw = {};  // if draws_random_numbers()
};

struct BackwardArgs {
  std::span<const void* const> inputs;     // null entries unless backward_needs_input(i)
  const void* output = nullptr;            // null unless backward_needs_output()
  const void* grad_output = nullptr;       // in output_layout(); the op may not write to it
  const void* more_grad_output = nullptr;  // likewise, to be added; only if adds_grad_outputs()
  std::span<void* const> grad_inputs;      // in input_layout(i); null entry: not wanted
  std::span<const void* const> parameters;
  std::span<void* const> grad_parameters;  // in parameters()[i].layout
  bool accumulate = false;                 // add to grad_parameters instead of overwriting them
  const void* saved = nullptr;
  void* workspace = nullptr;
  std::span<const void* const> bf16_weights;  // as in forward
  RandomDraw draw = {};                       // that of forward
};

class Op {
 public:
  virtual ~Op() = default;

  virtual std::string description() const = 0;  // "conv2d 3x3 32->64 +relu (jit:avx512_core)"

  virtual std::size_t input_count() const { return 1; }
  virtual const TensorLayout& input_layout(std::size_t i) const = 0;  // what it wants to read
  virtual const TensorLayout& output_layout() const = 0;
  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<StateSpec> state() const { return {}; }
  virtual std::size_t saved_bytes() const { return 0; }  // for its whole (micro-)batch
  // The larger of what forward and backward need.
  virtual std::size_t workspace_bytes() const { return 0; }
  virtual bool backward_needs_input(std::size_t i) const = 0;
  virtual bool backward_needs_output() const = 0;
  // Whether recompute() can make the output again, at the cost of one pass over memory. If other
  // operations' backward needs the output, the graph may then free it after forward and recompute
  // it in backward. It does so only if this operation's backward keeps the inputs anyway.
  virtual bool recomputes_output() const { return false; }

  // Whether backward can take its output's gradient in two parts (BackwardArgs::more_grad_output),
  // where several operations read that output. Their sum then costs no pass of its own.
  virtual bool adds_grad_outputs() const { return false; }

  // Whether one sample's result depends on other samples of the batch (batch norm). Such an op may
  // not be split into micro-batches.
  virtual bool couples_samples() const { return false; }
  // Whether training draws random numbers (dropout), which RandomDraw then tells apart.
  virtual bool draws_random_numbers() const { return false; }
  // Whether it reads bf16 copies of its parameters, which have the same layouts. The graph casts
  // all parameters of a network at once when forward begins.
  virtual bool reads_bf16_weights() const { return false; }
  // Whether backward honours BackwardArgs::accumulate.
  virtual bool accumulates_weight_gradients() const { return true; }
  // Floating-point operations of one forward call and one backward call (multiply-add = 2).
  virtual double forward_flops() const { return 0; }
  virtual double backward_flops() const { return 0; }
  // The bytes that one call gives to each other part of the batch (BatchParts::gather); 0: none.
  virtual std::size_t forward_exchange_bytes() const { return 0; }
  virtual std::size_t backward_exchange_bytes() const { return 0; }

  // Queue the work on `stream`. All pointers must stay valid until the stream has done it.
  virtual void forward(Stream& stream, const ForwardArgs& args) = 0;
  virtual void backward(Stream& stream, const BackwardArgs& args) = 0;
  // Writes the output of the last forward in training again, bit for bit, from the same inputs and
  // parameters and what that forward saved. Changes no state, and `args` has none; exchanges
  // nothing. Only if recomputes_output().
  virtual void recompute(Stream& stream, const ForwardArgs& args);
};

// ---- descriptions of the operations ----
// Input layouts are hints; input_layout() is what counts. `kName` stands in messages.

struct Conv2dDesc {
  static constexpr const char* kName = "conv2d";
  TensorLayout input;  // [batch, in, h, w]
  std::int64_t out_channels = 0;
  Window2d window;
  Dilation2d dilation;
  // The channels of input and output are divided into so many groups, in order. An output reads the
  // inputs of its own group, so the weight is [out, in / groups, kh, kw].
  std::int64_t groups = 1;
  bool bias = true;
  bool fuse_relu = false;        // output = relu(conv(x) + bias)
  bool needs_grad_input = true;  // false for the first layer: backward never computes it
};

// For each channel c: y = (x - mean_c) / sqrt(var_c + eps) * weight_c + bias_c, as
// torch.nn.BatchNorm2d. Training takes mean and biased variance of the batch, and moves the state
// (running_mean, running_var, num_batches_tracked) towards the mean and the unbiased variance:
// r += momentum * (batch's - r). An evaluation takes the state.
struct BatchNorm2dDesc {
  static constexpr const char* kName = "batch_norm2d";
  TensorLayout input;  // [batch, channels, h, w]
  double eps = 1e-5;
  double momentum = 0.1;  // 0 to 1
  bool affine = true;     // false: weight 1 and bias 0, which are no parameters
  bool needs_grad_input = true;
  bool fuse_add = false;   // a second input of the same shape is added to the result ...
  bool fuse_relu = false;  // ... and then this is rectified
  // Not null: training takes the statistics of all parts together, as torch.nn.SyncBatchNorm. The
  // parameters' gradients stay those of the own part. Outlives the operation.
  BatchParts* parts = nullptr;
};

struct MaxPool2dDesc {
  static constexpr const char* kName = "max_pool2d";
  TensorLayout input;  // [batch, channels, h, w]
  Window2d window;
  bool fuse_relu = false;  // output = relu(maxpool(x)) = maxpool(relu(x)): they commute
};

struct AvgPool2dDesc {
  static constexpr const char* kName = "avg_pool2d";
  TensorLayout input;  // [batch, channels, h, w]
  Window2d window;
  // Whether a window's sum is divided by the elements of the kernel, of which those in the padding
  // are 0; else by those in the map.
  bool count_include_pad = true;
};

// The mean over as many windows as the output has elements: rows floor(i * h / out_h) up to, not
// including, ceil((i + 1) * h / out_h), columns alike. An output of 1 x 1 is the mean of a map
// (global average pool).
struct AdaptiveAvgPool2dDesc {
  static constexpr const char* kName = "adaptive_avg_pool2d";
  TensorLayout input;  // [batch, channels, h, w]
  std::int64_t out_h = 0, out_w = 0;
};

// The channels of all inputs, one input after the other.
struct ConcatDesc {
  static constexpr const char* kName = "concat";
  std::vector<TensorLayout> inputs;  // [batch, channels, ...]: only the channels differ
};

struct LinearDesc {
  static constexpr const char* kName = "linear";
  // [batch, ...], flattened in its plain (NCHW) order. Where a backend reads features in another
  // order, the columns of the weight have that order, as its layout says.
  TensorLayout input;
  std::int64_t out_features = 0;
  bool bias = true;
  bool fuse_relu = false;
  bool needs_grad_input = true;
};

struct ReluDesc {
  static constexpr const char* kName = "relu";
  TensorLayout input;
};

// output = a + b, same shape. For residual connections, and for the sum of the gradients of a
// tensor that several layers read.
struct AddDesc {
  static constexpr const char* kName = "add";
  TensorLayout input;
};

// In training each element is 0 with probability p, else multiplied by 1 / (1 - p), as
// torch.nn.Dropout; an evaluation copies. What is dropped depends on the key, the step, the place
// of the sample in the global batch and the element's in the sample (dropout_mask.h), so it is the
// same however a batch is divided.
struct DropoutDesc {
  static constexpr const char* kName = "dropout";
  TensorLayout input;  // [batch, ...]
  double p = 0.5;      // from 0 up to, not including, 1
  std::uint64_t key = 0;
};

// Copies between two layouts of one shape. backward converts the gradient back.
struct ReorderDesc {
  static constexpr const char* kName = "reorder";
  TensorLayout from, to;
};

// Every operation that a backend may have.
using OpDesc =
    std::variant<Conv2dDesc, MaxPool2dDesc, LinearDesc, ReluDesc, AddDesc, ReorderDesc,
                 AvgPool2dDesc, AdaptiveAvgPool2dDesc, ConcatDesc, BatchNorm2dDesc, DropoutDesc>;

}  // namespace ddpbench::ops
