// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of convolution, pooling, linear layers and concatenation, and their plans on plain
// layouts. And what stands around a network is checked for.
//
// FLOPs (multiply-add = 2): conv2d forward 2 * batch * out * oh * ow * (in / groups) * kh * kw,
// linear forward 2 * batch * in * out. Backward has the same for each of weight gradient and input
// gradient. Bias, ReLU, and the comparisons and sums of pooling are not counted.
#include "kernels/ops/op.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "kernels/ops/flat_ops.h"

namespace ddpbench::ops {
namespace {

Shape sample_of(const Shape& shape) { return {shape.begin() + 1, shape.end()}; }

void check_shape(const Shape& shape, const char* operation) {
  if (!shape.empty() && std::ranges::all_of(shape, [](std::int64_t extent) { return extent > 0; }))
    return;
  throw ConfigError(
      fmt::format("{}: input {} has no elements or no dimensions", operation, to_string(shape)));
}

void check_image(const Shape& shape, const char* operation) {
  check_shape(shape, operation);
  if (shape.size() != 4)
    throw ConfigError(fmt::format("{}: a sample of {} is no image [channels, h, w]", operation,
                                  to_string(sample_of(shape))));
}

std::string padding_of(const Window2d& w) {
  if (w.is_even()) return to_string(Shape{w.pad_h, w.pad_w});
  return to_string(Shape{w.pad_h, w.pad_h + w.more_h, w.pad_w, w.pad_w + w.more_w});
}

Shape slide(const Shape& input, std::int64_t channels, const Window2d& w, const char* operation,
            const Dilation2d& dilation = {}) {
  ensure(std::min({w.kernel_h, w.kernel_w, w.stride_h, w.stride_w, dilation.h, dilation.w}) > 0 &&
             std::min({w.pad_h, w.pad_h + w.more_h, w.pad_w, w.pad_w + w.more_w}) >= 0,
         "{}: a kernel [{}, {}] of stride [{}, {}]", operation, w.kernel_h, w.kernel_w, w.stride_h,
         w.stride_w);
  // A dilated kernel spans the elements that it leaves out, too.
  const std::int64_t span_h = dilation.h * (w.kernel_h - 1) + 1;
  const std::int64_t span_w = dilation.w * (w.kernel_w - 1) + 1;
  Shape shape = {input[0], channels,
                 window_positions(input[2], span_h, w.stride_h, w.pad_h, w.more_h, w.ceil_mode),
                 window_positions(input[3], span_w, w.stride_w, w.pad_w, w.more_w, w.ceil_mode)};
  if (shape[2] < 1 || shape[3] < 1)
    throw ConfigError(fmt::format(
        "{}: the kernel [{}, {}] with padding {} and dilation [{}, {}] does not fit into {}",
        operation, w.kernel_h, w.kernel_w, padding_of(w), dilation.h, dilation.w,
        to_string(sample_of(input))));
  return shape;
}

void check_outputs(std::int64_t outputs, const char* operation) {
  if (outputs < 1)
    throw ConfigError(fmt::format("{}: {} outputs; at least 1 is needed", operation, outputs));
}

// More padding than half the kernel would make windows that see no input (PyTorch's rule).
Shape pooled(const Shape& input, const Window2d& w, const char* operation) {
  check_image(input, operation);
  if (2 * std::max(w.pad_h, w.pad_h + w.more_h) > w.kernel_h ||
      2 * std::max(w.pad_w, w.pad_w + w.more_w) > w.kernel_w)
    throw ConfigError(fmt::format("{}: padding {} is more than half of the kernel [{}, {}]",
                                  operation, padding_of(w), w.kernel_h, w.kernel_w));
  return slide(input, input[1], w, operation);
}

// A plan without parameters and needs.
OpPlan shaped_plan(std::string description, const TensorLayout& input, Shape output) {
  return {.description = std::move(description),
          .inputs = {TensorLayout::plain(input.shape)},
          .output = TensorLayout::plain(std::move(output))};
}

OpPlan elementwise_plan(std::string description, const TensorLayout& layout, std::size_t inputs) {
  check_shape(layout.shape, description.c_str());
  return {.description = std::move(description),
          .inputs = std::vector<TensorLayout>(inputs, layout),
          .output = layout};
}

// Adds what a matrix of weights brings, and the bias if there is one.
template <typename Desc>
void add_weights(const Desc& desc, const Shape& weight, OpPlan& plan) {
  const std::int64_t fan_in = element_count(weight) / weight[0];
  const Shape out = {weight[0]};
  plan.parameters = {{"weight", weight, TensorLayout::plain(weight), fan_in}};
  if (desc.bias) plan.parameters.push_back({"bias", out, TensorLayout::plain(out), fan_in});
  plan.needed_inputs = 1;
  plan.needs_output = desc.fuse_relu;
  plan.forward_flops =
      2.0 * static_cast<double>(element_count(plan.output.shape)) * static_cast<double>(fan_in);
  plan.backward_flops = plan.forward_flops * (desc.needs_grad_input ? 2 : 1);
}

// The plan of an operation that gives maps the size that its description says.
template <typename Desc>
OpPlan resized_plan(const Desc& desc, const char* operation) {
  const Shape& in = desc.input.shape;
  check_image(in, operation);
  check_outputs(std::min(desc.out_h, desc.out_w), operation);
  return shaped_plan(fmt::format("{} to {}x{}", operation, desc.out_h, desc.out_w), desc.input,
                     {in[0], in[1], desc.out_h, desc.out_w});
}

std::uint32_t narrow(std::int64_t value) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(value, std::numeric_limits<std::int32_t>::max()));
}

// Axes of which the sizes say all.
template <typename Axis, typename Desc>
std::array<Axis, 2> sized_axes(const Desc& desc) {
  const Shape in = desc.input.shape, out = output_shape(desc);
  std::array<Axis, 2> axes{};
  for (std::size_t i : {0U, 1U}) {
    axes[i].extent = narrow(in[2 + i]);
    axes[i].outputs = narrow(out[2 + i]);
  }
  return axes;
}

template <typename Desc>
const char* relu_text(const Desc& desc) {
  return desc.fuse_relu ? " +relu" : "";
}

}  // namespace

void Op::recompute(Stream&, const ForwardArgs&) {
  throw InternalError(plan_.description + " cannot give its output again");
}

Shape weight_shape(const Conv2dDesc& desc) {
  return {desc.out_channels, desc.input.shape[1] / desc.groups, desc.window.kernel_h,
          desc.window.kernel_w};
}

OpPlan plain_plan(const Conv2dDesc& desc) {
  const Shape& in = desc.input.shape;
  const Window2d& w = desc.window;
  check_image(in, "conv2d");
  check_outputs(desc.out_channels, "conv2d");
  if (desc.groups < 1 || in[1] % desc.groups != 0 || desc.out_channels % desc.groups != 0)
    throw ConfigError(fmt::format("conv2d: {} groups do not divide {} input and {} output channels",
                                  desc.groups, in[1], desc.out_channels));
  std::string text =
      fmt::format("conv2d {}x{} {}->{}", w.kernel_h, w.kernel_w, in[1], desc.out_channels);
  if (w.stride_h != 1 || w.stride_w != 1)
    text += fmt::format(" stride {}x{}", w.stride_h, w.stride_w);
  if (desc.dilation != Dilation2d{})
    text += fmt::format(" dilation {}x{}", desc.dilation.h, desc.dilation.w);
  if (desc.groups != 1) text += fmt::format(" groups {}", desc.groups);
  OpPlan plan = shaped_plan(text + relu_text(desc), desc.input,
                            slide(in, desc.out_channels, w, "conv2d", desc.dilation));
  add_weights(desc, weight_shape(desc), plan);
  return plan;
}

OpPlan plain_plan(const LinearDesc& desc) {
  const Shape& in = desc.input.shape;
  check_shape(in, "linear");
  check_outputs(desc.out_features, "linear");
  if (in.size() < 2)
    throw ConfigError(fmt::format("linear: input {} has no features", to_string(in)));
  const std::int64_t features = element_count(in) / in[0];
  OpPlan plan =
      shaped_plan(fmt::format("linear {}->{}{}", features, desc.out_features, relu_text(desc)),
                  desc.input, {in[0], desc.out_features});
  add_weights(desc, {desc.out_features, features}, plan);
  return plan;
}

// The statistics take 3 operations an element, the result 2; backward's sums 4, its result 5.
OpPlan plain_plan(const BatchNorm2dDesc& desc) {
  const Shape& shape = desc.input.shape;
  check_image(shape, "batch_norm2d");
  ensure(desc.eps >= 0 && desc.momentum >= 0 && desc.momentum <= 1,
         "batch_norm2d: eps {}, momentum {}", desc.eps, desc.momentum);
  // PyTorch refuses it too, in training: one value has no variance. Over several parts of the batch
  // one of each is enough, as for torch.nn.SyncBatchNorm.
  const auto parts = static_cast<std::int64_t>(desc.parts != nullptr ? desc.parts->count() : 1);
  if (parts * shape[0] * shape[2] * shape[3] < 2)
    throw BatchTooSmall(
        fmt::format("batch_norm2d: input {} has one value a channel; at least 2 are needed, so use "
                    "a larger batch",
                    to_string(shape)));
  OpPlan plan = shaped_plan(
      fmt::format("batch_norm2d {}{}{}{}", shape[1], desc.fuse_add ? " +add" : "", relu_text(desc),
                  desc.parts == nullptr ? "" : fmt::format(" of {} parts", parts)),
      desc.input, shape);
  if (desc.fuse_add) plan.inputs.push_back(plan.output);
  const Shape channels = {shape[1]};
  if (desc.affine) {
    const TensorLayout layout = TensorLayout::plain(channels);
    plan.parameters = {{.name = "weight", .shape = channels, .layout = layout, .start = 1.0F},
                       {.name = "bias", .shape = channels, .layout = layout, .start = 0.0F}};
  }
  plan.state = {{.name = "running_mean", .shape = channels, .start = 0},
                {.name = "running_var", .shape = channels, .start = 1},
                {.name = "num_batches_tracked", .shape = {}, .type = DataType::int64}};
  plan.couples_samples = true;
  plan.needed_inputs = 1;  // not the addend
  plan.needs_output = desc.fuse_add && desc.fuse_relu;
  const auto elements = static_cast<double>(element_count(shape));
  plan.forward_flops = 5 * elements;
  plan.backward_flops = 9 * elements;
  return plan;
}

OpPlan plain_plan(const MaxPool2dDesc& desc) {
  return shaped_plan(fmt::format("max_pool2d {}x{}{}", desc.window.kernel_h, desc.window.kernel_w,
                                 relu_text(desc)),
                     desc.input, pooled(desc.input.shape, desc.window, "max_pool2d"));
}

OpPlan plain_plan(const AvgPool2dDesc& desc) {
  return shaped_plan(fmt::format("avg_pool2d {}x{}", desc.window.kernel_h, desc.window.kernel_w),
                     desc.input, pooled(desc.input.shape, desc.window, "avg_pool2d"));
}

OpPlan plain_plan(const AdaptiveAvgPool2dDesc& desc) {
  return resized_plan(desc, "adaptive_avg_pool2d");
}

OpPlan plain_plan(const UpsampleBilinearDesc& desc) {
  return resized_plan(desc, "upsample_bilinear");
}

std::array<AverageAxis, 2> axes_of(const AvgPool2dDesc& desc) {
  auto axes = sized_axes<AverageAxis>(desc);
  const auto slide = [&](AverageAxis& axis, std::int64_t kernel, std::int64_t stride,
                         std::int64_t pad, std::int64_t more) {
    axis.kernel = narrow(kernel), axis.stride = narrow(stride), axis.pad = narrow(pad);
    if (desc.count_include_pad) axis.counted_to = narrow(axis.extent + 2 * pad + more);
  };
  const Window2d& w = desc.window;
  slide(axes[0], w.kernel_h, w.stride_h, w.pad_h, w.more_h);
  slide(axes[1], w.kernel_w, w.stride_w, w.pad_w, w.more_w);
  return axes;
}

std::array<AverageAxis, 2> axes_of(const AdaptiveAvgPool2dDesc& desc) {
  return sized_axes<AverageAxis>(desc);
}

std::array<BilinearAxis, 2> axes_of(const UpsampleBilinearDesc& desc) {
  return sized_axes<BilinearAxis>(desc);
}

OpPlan plain_plan(const ConcatDesc& desc) {
  if (desc.inputs.empty()) throw ConfigError("concat: no inputs");
  const Shape& first = desc.inputs[0].shape;
  OpPlan plan{.description = fmt::format("concat of {}", desc.inputs.size())};
  Shape sum = first;
  for (const TensorLayout& input : desc.inputs) {
    Shape wanted = input.shape;
    check_shape(wanted, "concat");
    if (wanted.size() < 2)
      throw ConfigError(fmt::format("concat: input {} has no channels", to_string(wanted)));
    sum[1] += std::exchange(wanted[1], first[1]);
    if (wanted != first)
      throw ConfigError(fmt::format("concat: {} and {} differ in more than their channels",
                                    to_string(sample_of(first)),
                                    to_string(sample_of(input.shape))));
    plan.inputs.push_back(TensorLayout::plain(input.shape));
  }
  sum[1] -= first[1];
  plan.output = TensorLayout::plain(std::move(sum));
  return plan;
}

OpPlan plain_plan(const ActivationDesc& desc) {
  const std::string_view name = kActivationNames[static_cast<std::size_t>(desc.kind)];
  OpPlan plan = elementwise_plan(std::string(name), desc.input, 1);
  plan.needs_output = true;
  return plan;
}

OpPlan plain_plan(const AddDesc& desc) { return elementwise_plan("add", desc.input, 2); }

OpPlan plain_plan(const DropoutDesc& desc) {
  ensure(desc.p >= 0 && desc.p < 1, "dropout: p is {}", desc.p);
  OpPlan plan =
      elementwise_plan("dropout", TensorLayout::plain(desc.input.shape, desc.input.type), 1);
  plan.description += fmt::format(" {}", desc.p);
  plan.draws_random_numbers = true;
  return plan;
}

OpPlan plain_plan(const ReorderDesc& desc) {
  check_shape(desc.from.shape, "reorder");
  const auto named = [](const TensorLayout& layout) {
    return layout.type == DataType::fp32
               ? layout.tag
               : fmt::format("{} {}", ddpbench::to_string(layout.type), layout.tag);
  };
  return {.description = fmt::format("reorder {} -> {}", named(desc.from), named(desc.to)),
          .inputs = {desc.from},
          .output = desc.to};
}

void check_loss(const CrossEntropyDesc& desc) {
  check_shape({desc.batch, desc.classes, desc.positions}, "softmax_cross_entropy");
  ensure(desc.label_smoothing >= 0 && desc.label_smoothing <= 1, "a label smoothing of {}",
         desc.label_smoothing);
}

std::string describe(const CrossEntropyDesc& desc) {
  Shape shape = {desc.batch, desc.classes};
  if (desc.positions != 1) shape.push_back(desc.positions);
  return fmt::format("softmax_cross_entropy on {}", to_string(shape));
}

void check_gather(const GatherArgs& args) {
  const auto channels = static_cast<std::size_t>(args.channels);
  ensure(args.batch >= 0 && args.channels > 0 && args.labels_per_sample > 0 &&
             args.sample_elements % args.channels == 0 && args.mean.size() == channels &&
             args.std.size() == channels,
         "a gather of {} samples of {} elements in {} channels", args.batch, args.sample_elements,
         args.channels);
}

}  // namespace ddpbench::ops
