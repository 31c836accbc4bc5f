// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The contract of one operation: planned once for fixed shapes, then run without allocating.
//
// An Op holds no tensors. The Graph asks its plan for layouts and sizes, gives it memory, and calls
// forward and backward with pointers into device memory. The batch dimension is outermost in every
// activation layout, so sample ranges are contiguous and the graph can run micro-batches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/dropout_mask.h"
#include "kernels/ops/tensor_layout.h"
#include "kernels/ops/window_axis.h"
#include "kernels/runtime/device.h"

namespace ddpbench::ops {

// The two errors of a batch size; `ddpbench fit` tries another one.
//
// Batch norm trains on at least 2 values a channel: maps of 1 x 1 need 2 samples.
class BatchTooSmall : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// A tensor would have 2^31 elements or more, which the kernels of the device do not count.
class BatchTooLarge : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// A trainable tensor of an operation.
struct ParameterSpec {
  std::string name;  // "weight", "bias"; the graph puts the layer's name before it
  Shape shape;       // as PyTorch stores it: conv [out, in, kh, kw], linear [out, in], bias [out]
  TensorLayout layout;      // how this backend stores weight and gradient (one layout for both)
  std::int64_t fan_in = 0;  // inputs of one output unit; PyTorch's default initialisation needs it
  std::optional<float> start = {};  // the value of all elements at step 0; none: drawn by fan_in
};

// What an operation keeps from step to step, as running statistics (PyTorch's "buffers"): plain,
// and only forward in training changes it.
struct StateSpec {
  std::string name;                // "running_mean"; the graph puts the layer's name before it
  Shape shape;                     // {}: a single number
  DataType type = DataType::fp32;  // or int64
  double start = 0;                // the value of all elements at step 0
};

// An evaluation uses the state in place of its batch's statistics, and has no backward.
enum class Mode : std::uint8_t { training, evaluation };

struct ForwardArgs {
  std::span<const void* const> inputs;         // in plan().inputs[i]
  void* output = nullptr;                      // in plan().output
  std::span<const void* const> parameters;     // in parameters[i].layout
  void* saved = nullptr;                       // plan().saved_bytes; kept for backward
  void* workspace = nullptr;                   // plan().workspace_bytes; free between calls
  std::span<const void* const> weight_copies;  // parameters in plan().weight_type, if not fp32
  std::span<void* const> state = {};           // in the order of plan().state
  Mode mode = Mode::training;
  RandomDraw draw = {};  // if draws_random_numbers
};

struct BackwardArgs {
  std::span<const void* const> inputs;     // null from needed_inputs on
  const void* output = nullptr;            // null unless needs_output
  const void* grad_output = nullptr;       // in plan().output; the op may not write to it
  const void* more_grad_output = nullptr;  // likewise, to be added; only if adds_grad_outputs
  std::span<void* const> grad_inputs;      // in plan().inputs[i]; null entry: not wanted
  std::span<const void* const> parameters;
  std::span<void* const> grad_parameters;  // in parameters[i].layout; all null: not wanted
  bool accumulate = false;                 // add to grad_parameters instead of overwriting them
  const void* saved = nullptr;
  void* workspace = nullptr;
  std::span<const void* const> weight_copies;  // as in forward
  RandomDraw draw = {};                        // that of forward
};

// All that an operation says about itself. Plain data, filled while planning.
struct OpPlan {
  std::string description;           // "conv2d 3x3 32->64 +relu (jit:avx512_core)"
  std::vector<TensorLayout> inputs;  // what it wants to read
  TensorLayout output;
  std::vector<ParameterSpec> parameters;
  std::vector<StateSpec> state;
  std::size_t saved_bytes = 0;      // for its whole (micro-)batch
  std::size_t workspace_bytes = 0;  // the larger of what forward and backward need
  std::size_t needed_inputs = 0;    // backward reads the first so many
  bool needs_output = false;        // whether backward reads the output
  // Whether recompute() can make the output again in one pass over memory, so that it need not stay
  // for other operations' backward. That pays where this operation keeps its inputs anyway.
  bool recomputes_output = false;
  // Whether backward takes BackwardArgs::more_grad_output, which saves a pass for the sum.
  bool adds_grad_outputs = false;
  // Whether a sample's result depends on others of the batch (batch norm): no micro-batches.
  bool couples_samples = false;
  bool draws_random_numbers = false;  // in training (dropout); RandomDraw then tells them apart
  // Not fp32: it reads copies of its parameters in this type, of the same layouts, which the graph
  // makes. All operations of a network that do read the same type.
  DataType weight_type = DataType::fp32;
  // Floating-point operations of one forward call and one backward call (multiply-add = 2).
  double forward_flops = 0;
  double backward_flops = 0;
};

class Op {
 public:
  virtual ~Op() = default;

  const OpPlan& plan() const { return plan_; }

  // Queue the work on `stream`. All pointers must stay valid until the stream has done it.
  virtual void forward(Stream& stream, const ForwardArgs& args) = 0;
  // Honours BackwardArgs::accumulate.
  virtual void backward(Stream& stream, const BackwardArgs& args) = 0;
  // Writes the output of the last forward in training again, bit for bit, from the same inputs and
  // parameters and what that forward saved. Changes no state, and `args` has none; exchanges
  // nothing. Only if plan().recomputes_output.
  virtual void recompute(Stream& stream, const ForwardArgs& args);

 protected:
  Op() = default;
  explicit Op(OpPlan plan) : plan_(std::move(plan)) {}
  OpPlan plan_;
};

// How an operation that couples the samples of a batch reaches the parts on other devices.
class BatchParts {
 public:
  virtual ~BatchParts() = default;

  // How many parts there are, with equally many samples each.
  virtual std::size_t count() const = 0;
  // Queues: `all` becomes the `bytes` at `own` of every part, in the order of the parts, on each of
  // them. Both are device memory; `bytes` is a multiple of 8. All parts call this equally often, in
  // one order.
  virtual void gather(Stream& stream, const void* own, void* all, std::size_t bytes) = 0;
};

// Combines a channel's sum and its squared deviations from the mean from those of all parts, each
// over `values` values, in the order of the parts (Chan, Golub and LeVeque, "Updating formulae and
// a pairwise algorithm for computing sample variances", 1979). Sums, not means: sums of fp32 values
// are mostly exact in double, where a mean would be rounded on the way.
struct Moments {
  double sum = 0, squares = 0;
};
template <typename MomentsOf>
Moments joined_moments(std::size_t parts, double values, const MomentsOf& moments_of) {
  Moments joined;
  for (std::size_t p = 0; p < parts; ++p) joined.sum += moments_of(p).sum;
  const double mean = joined.sum / (values * static_cast<double>(parts));
  for (std::size_t p = 0; p < parts; ++p) {
    const Moments part = moments_of(p);
    const double deviation = part.sum / values - mean;
    joined.squares += part.squares + values * deviation * deviation;
  }
  return joined;
}

// ---- descriptions of the operations ----
// Input layouts are hints; OpPlan::inputs are what counts.

struct Conv2dDesc {
  TensorLayout input;  // [batch, in, h, w]
  std::int64_t out_channels = 0;
  Window2d window;
  Dilation2d dilation;
  // An output reads the inputs of its own group, so the weight is [out, in / groups, kh, kw].
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
  TensorLayout input;  // [batch, channels, h, w]
  Window2d window;
  bool fuse_relu = false;  // output = relu(maxpool(x)) = maxpool(relu(x)): they commute
  // All readers of the output want it plain. A pool that writes it so saves the reorder, which
  // would write the map again.
  bool to_plain = false;
};

struct AvgPool2dDesc {
  TensorLayout input;  // [batch, channels, h, w]
  Window2d window;
  bool count_include_pad = true;  // whether a sum is divided by all the kernel's elements
};

// The mean over as many windows as the output has elements: rows floor(i * h / out_h) up to, not
// including, ceil((i + 1) * h / out_h), columns alike. An output of 1 x 1 is the mean of a map
// (global average pool).
struct AdaptiveAvgPool2dDesc {
  TensorLayout input;  // [batch, channels, h, w]
  std::int64_t out_h = 0, out_w = 0;
};

// A map of another size, as torch.nn.functional.interpolate with mode="bilinear" and
// align_corners=False makes it (BilinearAxis).
struct UpsampleBilinearDesc {
  TensorLayout input;  // [batch, channels, h, w]
  std::int64_t out_h = 0, out_w = 0;
};

// The channels of all inputs, one input after the other.
struct ConcatDesc {
  std::vector<TensorLayout> inputs;  // [batch, channels, ...]: only the channels differ
};

struct LinearDesc {
  // [batch, ...], flattened in its plain order. A backend that reads features in another order has
  // the weight's columns in that order, as its layout says.
  TensorLayout input;
  std::int64_t out_features = 0;
  bool bias = true;
  bool fuse_relu = false;
  bool needs_grad_input = true;
  // In fp32, whatever type the backend's activations have: equal devices compute equal bits.
  bool is_plain = false;
};

struct ActivationDesc {
  TensorLayout input;
  Activation kind = Activation::relu;
};

// output = a + b, same shape.
struct AddDesc {
  TensorLayout input;
};

// As torch.nn.Dropout. What is dropped depends on the key, the step, the place of the sample in the
// global batch and the element's in the sample (dropout_mask.h), however a batch is divided.
struct DropoutDesc {
  TensorLayout input;  // [batch, ...]
  double p = 0.5;      // from 0 up to, not including, 1
  std::uint64_t key = 0;
};

// Copies between two layouts of one shape. backward converts the gradient back.
struct ReorderDesc {
  TensorLayout from, to;
};

// Every operation that a backend may have.
using OpDesc = std::variant<Conv2dDesc, MaxPool2dDesc, LinearDesc, ActivationDesc, AddDesc,
                            ReorderDesc, AvgPool2dDesc, AdaptiveAvgPool2dDesc, ConcatDesc,
                            BatchNorm2dDesc, DropoutDesc, UpsampleBilinearDesc>;

// ---- what the operations of all backends share ----

Shape weight_shape(const Conv2dDesc& desc);  // [out, in / groups, kh, kw]

// The plan of an operation on plain layouts, or, where it works element by element, on that of its
// input: shapes, PyTorch's parameters, needs, FLOPs, and "conv2d 3x3 32->64 +relu", the part of a
// description that does not depend on the backend. Throws ConfigError that names the given shapes
// when there is no result.
OpPlan plain_plan(const Conv2dDesc& desc);
OpPlan plain_plan(const BatchNorm2dDesc& desc);
OpPlan plain_plan(const MaxPool2dDesc& desc);
OpPlan plain_plan(const LinearDesc& desc);
OpPlan plain_plan(const AvgPool2dDesc& desc);
OpPlan plain_plan(const AdaptiveAvgPool2dDesc& desc);
OpPlan plain_plan(const UpsampleBilinearDesc& desc);
OpPlan plain_plan(const ConcatDesc& desc);
OpPlan plain_plan(const ActivationDesc& desc);
OpPlan plain_plan(const AddDesc& desc);
OpPlan plain_plan(const DropoutDesc& desc);
OpPlan plain_plan(const ReorderDesc& desc);

template <typename Desc>
Shape output_shape(const Desc& desc) {
  return plain_plan(desc).output.shape;
}

// The rows and the columns that the windows of these operations read.
std::array<AverageAxis, 2> axes_of(const AvgPool2dDesc& desc);
std::array<AverageAxis, 2> axes_of(const AdaptiveAvgPool2dDesc& desc);
std::array<BilinearAxis, 2> axes_of(const UpsampleBilinearDesc& desc);

// "conv2d 3x3 32->64 +relu on [16, 32, 14, 14]", for messages.
template <typename Desc>
std::string where_of(const Desc& desc) {
  return fmt::format("{} on {}", plain_plan(desc).description, to_string(desc.input.shape));
}

// dropout over a plain layout: the mask has the order of elements in memory.
class DropoutOp : public Op {
 protected:
  explicit DropoutOp(const DropoutDesc& desc)
      : Op(plain_plan(desc)), mask_(dropout_mask(desc.p, desc.key)) {}

  std::int64_t samples() const { return plan_.output.shape[0]; }
  std::int64_t elements() const { return element_count(plan_.output.shape) / samples(); }

  DropoutMask mask_;
};

}  // namespace ddpbench::ops
