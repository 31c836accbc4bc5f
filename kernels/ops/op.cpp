// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of convolution, pooling, linear layers and concatenation, and their plans on plain
// layouts.
//
// FLOPs (multiply-add = 2): conv2d forward 2 * batch * out * oh * ow * (in / groups) * kh * kw,
// linear forward 2 * batch * in * out. Backward has the same for each of weight gradient and input
// gradient. Bias, ReLU, and the comparisons and sums of pooling are not counted.
#include "kernels/ops/op.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ddpbench::ops {
namespace {

void check_image(const Shape& shape, const char* operation) {
  check_shape(shape, operation);
  if (shape.size() != 4)
    throw ConfigError(fmt::format("{}: input {} is not [batch, channels, height, width]", operation,
                                  to_string(shape)));
}

void check_extents(std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                   const char* operation) {
  if (kernel < 1 || stride < 1 || pad < 0)
    throw ConfigError(
        fmt::format("{}: kernel {}, stride {}, padding {}: kernel and stride must be positive, "
                    "padding not negative",
                    operation, kernel, stride, pad));
}

Shape slide(const Shape& input, std::int64_t channels, const Window2d& w, const char* operation,
            const Dilation2d& dilation = {}) {
  check_extents(w.kernel_h, w.stride_h, w.pad_h, operation);
  check_extents(w.kernel_w, w.stride_w, w.pad_w, operation);
  const Window2d span = spanned_window(w, dilation);
  Shape shape = {input[0], channels, window_positions(input[2], span.kernel_h, w.stride_h, w.pad_h),
                 window_positions(input[3], span.kernel_w, w.stride_w, w.pad_w)};
  if (shape[2] < 1 || shape[3] < 1)
    throw ConfigError(
        fmt::format("{}: a {}x{} kernel with padding {}x{} does not fit into input {}", operation,
                    span.kernel_h, span.kernel_w, w.pad_h, w.pad_w, to_string(input)));
  return shape;
}

void check_outputs(std::int64_t outputs, const char* operation) {
  if (outputs < 1)
    throw ConfigError(fmt::format("{}: {} outputs; at least 1 is needed", operation, outputs));
}

// More padding than half the kernel would make windows that see no input (PyTorch's rule).
Shape pooled(const Shape& input, const Window2d& w, const char* operation) {
  check_image(input, operation);
  if (2 * w.pad_h > w.kernel_h || 2 * w.pad_w > w.kernel_w)
    throw ConfigError(fmt::format("{}: padding {}x{} is more than half of kernel {}x{}", operation,
                                  w.pad_h, w.pad_w, w.kernel_h, w.kernel_w));
  return slide(input, input[1], w, operation);
}

void check_groups(const Conv2dDesc& desc) {
  const std::int64_t in = desc.input.shape[1], out = desc.out_channels;
  if (desc.groups < 1 || in % desc.groups != 0 || out % desc.groups != 0)
    throw ConfigError(fmt::format("conv2d: {} groups do not divide {} input and {} output channels",
                                  desc.groups, in, out));
  if (desc.dilation.h < 1 || desc.dilation.w < 1)
    throw ConfigError(fmt::format("conv2d: dilation {}x{}: it must be positive", desc.dilation.h,
                                  desc.dilation.w));
}

// The plan of an operation with one input on plain layouts, without parameters and needs.
template <typename Desc>
OpPlan shaped_plan(const Desc& desc) {
  OpPlan plan;
  plan.output = TensorLayout::plain(output_shape(desc));
  plan.inputs = {TensorLayout::plain(desc.input.shape)};
  plan.description = describe(desc);
  return plan;
}

std::vector<ParameterSpec> weight_and_bias(Shape weight, bool bias) {
  const std::int64_t out = weight[0];
  const std::int64_t fan_in = element_count(weight) / out;
  std::vector<ParameterSpec> specs = {{"weight", weight, TensorLayout::plain(weight), fan_in}};
  if (bias) specs.push_back({"bias", {out}, TensorLayout::plain({out}), fan_in});
  return specs;
}

}  // namespace

void check_shape(const Shape& shape, const char* operation) {
  bool positive = !shape.empty();
  for (const std::int64_t extent : shape) positive = positive && extent > 0;
  if (!positive)
    throw ConfigError(
        fmt::format("{}: input {} has no elements or no dimensions", operation, to_string(shape)));
}

void Op::recompute(Stream&, const ForwardArgs&) {
  throw InternalError(plan_.description + " cannot give its output again");
}

ElementwiseOp::ElementwiseOp(const TensorLayout& layout, const char* name, std::size_t inputs) {
  check_shape(layout.shape, name);
  plan_.description = name;
  plan_.inputs.assign(inputs, layout);
  plan_.output = layout;
}

DropoutOp::DropoutOp(const DropoutDesc& desc, const TensorLayout& layout)
    : ElementwiseOp(layout, "dropout", 1) {
  if (!(desc.p >= 0 && desc.p < 1))
    throw ConfigError(
        fmt::format("dropout: p is {}; it must be at least 0 and less than 1", desc.p));
  mask_ = dropout_mask(desc.p, desc.key);
  plan_.description = fmt::format("dropout {}", desc.p);
  plan_.draws_random_numbers = true;
}

std::int64_t DropoutOp::elements() const { return element_count(plan_.output.shape) / samples(); }

Shape output_shape(const Conv2dDesc& desc) {
  check_image(desc.input.shape, "conv2d");
  check_outputs(desc.out_channels, "conv2d");
  check_groups(desc);
  return slide(desc.input.shape, desc.out_channels, desc.window, "conv2d", desc.dilation);
}

Shape weight_shape(const Conv2dDesc& desc) {
  return {desc.out_channels, desc.input.shape[1] / desc.groups, desc.window.kernel_h,
          desc.window.kernel_w};
}

Shape output_shape(const BatchNorm2dDesc& desc) {
  const Shape& shape = desc.input.shape;
  check_image(shape, "batch_norm2d");
  if (!(desc.eps >= 0) || !(desc.momentum >= 0 && desc.momentum <= 1))
    throw ConfigError(fmt::format(
        "batch_norm2d: eps {}, momentum {}: eps may not be negative, momentum is from 0 to 1",
        desc.eps, desc.momentum));
  // PyTorch refuses it too, in training: one value has no variance. Over several parts of the batch
  // one of each is enough, as for torch.nn.SyncBatchNorm.
  const auto parts = static_cast<std::int64_t>(desc.parts != nullptr ? desc.parts->count() : 1);
  if (parts * shape[0] * shape[2] * shape[3] < 2)
    throw BatchTooSmall(
        fmt::format("batch_norm2d: input {} has one value a channel; at least 2 are needed, so use "
                    "a larger batch",
                    to_string(shape)));
  return shape;
}

Shape output_shape(const MaxPool2dDesc& desc) {
  return pooled(desc.input.shape, desc.window, "max_pool2d");
}

Shape output_shape(const AvgPool2dDesc& desc) {
  return pooled(desc.input.shape, desc.window, "avg_pool2d");
}

Shape output_shape(const AdaptiveAvgPool2dDesc& desc) {
  check_image(desc.input.shape, "adaptive_avg_pool2d");
  check_outputs(std::min(desc.out_h, desc.out_w), "adaptive_avg_pool2d");
  return {desc.input.shape[0], desc.input.shape[1], desc.out_h, desc.out_w};
}

Shape output_shape(const ConcatDesc& desc) {
  if (desc.inputs.empty()) throw ConfigError("concat: no inputs");
  Shape sum = desc.inputs[0].shape;
  for (const TensorLayout& input : desc.inputs) {
    check_shape(input.shape, "concat");
    if (input.shape.size() < 2)
      throw ConfigError(fmt::format("concat: input {} has no channels", to_string(input.shape)));
  }
  for (std::size_t i = 1; i < desc.inputs.size(); ++i) {
    Shape wanted = desc.inputs[i].shape;
    sum[1] += std::exchange(wanted[1], desc.inputs[0].shape[1]);
    if (wanted != desc.inputs[0].shape)
      throw ConfigError(fmt::format("concat: {} and {} differ in more than their channels",
                                    to_string(desc.inputs[0].shape),
                                    to_string(desc.inputs[i].shape)));
  }
  return sum;
}

Shape output_shape(const LinearDesc& desc) {
  check_shape(desc.input.shape, "linear");
  check_outputs(desc.out_features, "linear");
  if (desc.input.shape.size() < 2)
    throw ConfigError(fmt::format("linear: input {} has no features", to_string(desc.input.shape)));
  return {desc.input.shape[0], desc.out_features};
}

std::string describe(const Conv2dDesc& desc) {
  const Window2d& w = desc.window;
  std::string text = fmt::format("conv2d {}x{} {}->{}", w.kernel_h, w.kernel_w, desc.input.shape[1],
                                 desc.out_channels);
  if (w.stride_h != 1 || w.stride_w != 1)
    text += fmt::format(" stride {}x{}", w.stride_h, w.stride_w);
  if (desc.dilation != Dilation2d{})
    text += fmt::format(" dilation {}x{}", desc.dilation.h, desc.dilation.w);
  if (desc.groups != 1) text += fmt::format(" groups {}", desc.groups);
  return text + (desc.fuse_relu ? " +relu" : "");
}

std::string describe(const BatchNorm2dDesc& desc) {
  return fmt::format("batch_norm2d {}{}{}{}", desc.input.shape[1], desc.fuse_add ? " +add" : "",
                     desc.fuse_relu ? " +relu" : "",
                     desc.parts == nullptr ? "" : fmt::format(" of {} parts", desc.parts->count()));
}

std::string describe(const MaxPool2dDesc& desc) {
  return fmt::format("max_pool2d {}x{}{}", desc.window.kernel_h, desc.window.kernel_w,
                     desc.fuse_relu ? " +relu" : "");
}

std::string describe(const LinearDesc& desc) {
  return fmt::format("linear {}->{}{}", element_count(desc.input.shape) / desc.input.shape[0],
                     desc.out_features, desc.fuse_relu ? " +relu" : "");
}

std::string describe(const AvgPool2dDesc& desc) {
  return fmt::format("avg_pool2d {}x{}", desc.window.kernel_h, desc.window.kernel_w);
}

std::string describe(const AdaptiveAvgPool2dDesc& desc) {
  return fmt::format("adaptive_avg_pool2d to {}x{}", desc.out_h, desc.out_w);
}

std::string describe(const ConcatDesc& desc) {
  return fmt::format("concat of {}", desc.inputs.size());
}

OpPlan plain_plan(const Conv2dDesc& desc) {
  OpPlan plan = shaped_plan(desc);
  plan.parameters = weight_and_bias(weight_shape(desc), desc.bias);
  plan.needed_inputs = 1;
  plan.needs_output = desc.fuse_relu;
  plan.forward_flops = 2.0 * static_cast<double>(element_count(plan.output.shape)) *
                       static_cast<double>(plan.parameters[0].fan_in);
  plan.backward_flops = plan.forward_flops * (desc.needs_grad_input ? 2 : 1);
  return plan;
}

// The statistics take 3 operations an element, the result 2; backward's sums 4, its result 5.
OpPlan plain_plan(const BatchNorm2dDesc& desc) {
  OpPlan plan = shaped_plan(desc);
  if (desc.fuse_add) plan.inputs.push_back(plan.output);
  const Shape channels = {desc.input.shape[1]};
  if (desc.affine) {
    plan.parameters = {{.name = "weight", .shape = channels, .start = 1.0F},
                       {.name = "bias", .shape = channels, .start = 0.0F}};
    for (ParameterSpec& spec : plan.parameters) spec.layout = TensorLayout::plain(channels);
  }
  plan.state = {{.name = "running_mean", .shape = channels, .start = 0},
                {.name = "running_var", .shape = channels, .start = 1},
                {.name = "num_batches_tracked", .shape = {}, .type = DataType::int64}};
  plan.couples_samples = true;
  plan.needed_inputs = 1;  // not the addend
  plan.needs_output = desc.fuse_add && desc.fuse_relu;
  const auto elements = static_cast<double>(element_count(plan.output.shape));
  plan.forward_flops = 5 * elements;
  plan.backward_flops = 9 * elements;
  return plan;
}

OpPlan plain_plan(const MaxPool2dDesc& desc) { return shaped_plan(desc); }
OpPlan plain_plan(const AvgPool2dDesc& desc) { return shaped_plan(desc); }
OpPlan plain_plan(const AdaptiveAvgPool2dDesc& desc) { return shaped_plan(desc); }

OpPlan plain_plan(const ConcatDesc& desc) {
  OpPlan plan;
  plan.output = TensorLayout::plain(output_shape(desc));
  for (const TensorLayout& input : desc.inputs)
    plan.inputs.push_back(TensorLayout::plain(input.shape));
  plan.description = describe(desc);
  return plan;
}

OpPlan plain_plan(const LinearDesc& desc) {
  OpPlan plan = shaped_plan(desc);
  const std::int64_t in = element_count(desc.input.shape) / desc.input.shape[0];
  plan.parameters = weight_and_bias({desc.out_features, in}, desc.bias);
  plan.needed_inputs = 1;
  plan.needs_output = desc.fuse_relu;
  plan.forward_flops =
      2.0 * static_cast<double>(element_count(plan.output.shape)) * static_cast<double>(in);
  plan.backward_flops = plan.forward_flops * (desc.needs_grad_input ? 2 : 1);
  return plan;
}

}  // namespace ddpbench::ops
