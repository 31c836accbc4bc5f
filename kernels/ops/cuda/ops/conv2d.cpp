// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d, channels last. 2 * batch * out * oh * ow * in * kh * kw FLOPs forward, the same for each
// gradient; bytes are those of input, output and weights, once each. Each pass is tuned separately
// (tune_convolution).
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/library/convolution.h"
#include "kernels/ops/cuda/library/layout.h"
#include "kernels/ops/cuda/ops/cuda_ops.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

// The forward pass and the gradients of the parameters each run on an own kernel where the shape
// has some (few_channels.h), which do all below themselves and read fp32 weights, else by cuDNN.
// Around cuDNN's calls run passes over the output, bound by memory bandwidth. Forward, one adds the
// bias (2 maps), only where the chosen algorithm cannot. Backward, one rectifies the gradient and
// sums the bias's gradient (2 to 3 maps). cuDNN's gradient of the weights is widened; a
// gradient that is accumulated goes through the workspace, too: the search for an algorithm does
// not cover accumulation. Both are small. The gradient of the input is always cuDNN's.
class Conv2d final : public Op {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc, const std::string& where)
      : Op(plain_plan(desc)), context_(std::move(context)), shape_(*context_, desc, where) {
    plan_.inputs = {same_memory_or(desc.input, nhwc_layout(desc.input.shape, shape_.type))};
    plan_.output = nhwc_layout(plan_.output.shape, shape_.type);
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    const bool data = shape_.needs_grad_input;
    if (!is_own()) forward_ = tune_convolution(*context_, shape_, ConvolutionPass::forward);
    if (!is_own()) filter_ = tune_convolution(*context_, shape_, ConvolutionPass::backward_filter);
    if (data) data_ = tune_convolution(*context_, shape_, ConvolutionPass::backward_data);
    plan_.description +=
        is_own() ? std::string(" (own kernel)")
                 : fmt::format(" (cudnn {} algorithm {}{})", to_string(context_->options.precision),
                               forward_.algorithm, forward_.fused ? " fused" : "");
    if (data || !is_own()) plan_.weight_type = shape_.type;
    lay_out_backward();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const auto* const bias = shape_.bias ? static_cast<const float*>(args.parameters[1]) : nullptr;
    if (is_own()) {
      const FewChannelForward own{.x = args.inputs[0],
                                  .w = static_cast<const float*>(args.parameters[0]),
                                  .bias = bias,
                                  .y = args.output,
                                  .relu = shape_.relu};
      return check(few_channel_forward(*shape_.few_channels, own, native), shape_.where,
                   "few_channel_forward");
    }
    const auto parameters = parameters_beside(shape_.type, args);
    const void* const library_bias = forward_.fused ? parameters[1] : nullptr;
    check(convolve(*context_, shape_, forward_,
                   {args.inputs[0], parameters[0], library_bias, args.output}, args.workspace),
          shape_.where, "cudnnConvolutionForward");
    if (forward_.fused || (!shape_.bias && !shape_.relu)) return;
    const BiasRelu rest{.type = shape_.type,
                        .y = args.output,
                        .bias = bias,
                        .columns = static_cast<std::uint32_t>(shape_.out_channels),
                        .relu = shape_.relu};
    check(bias_relu(rest, static_cast<std::uint32_t>(shape_.y_count), native), shape_.where,
          "bias_relu");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const void* const dy =
        is_one_pass() ? args.grad_output : gradient_pass_.run(args, native, shape_.where);
    const bool trained = args.grad_parameters[0] != nullptr;
    if (trained && is_own()) {
      run_own_gradients(args, dy, native);
    } else if (trained) {
      run_filter(args, dy, native);
    }
    if (!shape_.needs_grad_input || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    check(cudnnConvolutionBackwardData(context_->cudnn, &kOne, shape_.w.get(),
                                       parameters_beside(shape_.type, args)[0], shape_.y.get(), dy,
                                       shape_.convolution(ConvolutionPass::backward_data),
                                       static_cast<cudnnConvolutionBwdDataAlgo_t>(data_.algorithm),
                                       part(args, data_workspace_), data_.workspace_bytes, &kZero,
                                       shape_.x.get(), args.grad_inputs[0]),
          shape_.where, "cudnnConvolutionBackwardData");
  }

 private:
  bool is_own() const { return shape_.few_channels.has_value(); }
  // Whether the own kernel rectifies and sums the bias's gradient itself. It does not where the
  // input's gradient needs the rectified gradient, too.
  bool is_one_pass() const { return is_own() && !(shape_.relu && shape_.needs_grad_input); }

  static void* part(const BackwardArgs& args, std::size_t offset) {
    return static_cast<std::byte*>(args.workspace) + offset;
  }

  void lay_out_backward() {
    const auto columns = static_cast<std::uint32_t>(shape_.out_channels);
    WorkspaceLayout backward;
    if (!is_one_pass()) {
      gradient_pass_ = GradientPass({.type = shape_.type,
                                     .rows = static_cast<std::uint32_t>(shape_.y_count) / columns,
                                     .columns = columns,
                                     .relu = shape_.relu,
                                     .bias = shape_.bias},
                                    backward);
    }
    if (!is_own()) {
      gradient_ = backward.add(static_cast<std::size_t>(shape_.w_count) * size_of(shape_.type));
    }
    filter_workspace_ = backward.add(is_own() ? few_channel_workspace_bytes(*shape_.few_channels)
                                              : filter_.workspace_bytes);
    data_workspace_ = backward.add(data_.workspace_bytes);
    plan_.workspace_bytes = std::max(forward_.workspace_bytes, backward.bytes());
  }

  void run_own_gradients(const BackwardArgs& args, const void* dy, cudaStream_t stream) const {
    FewChannelGradients own{.x = args.inputs[0],
                            .dy = dy,
                            .dw = static_cast<float*>(args.grad_parameters[0]),
                            .accumulate = args.accumulate,
                            .workspace = part(args, filter_workspace_)};
    if (is_one_pass()) {
      own.y = shape_.relu ? args.output : nullptr;
      own.dbias = shape_.bias ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    }
    check(few_channel_gradients(*shape_.few_channels, own, stream), shape_.where,
          "few_channel_gradients");
  }

  void run_filter(const BackwardArgs& args, const void* dy, cudaStream_t stream) const {
    const bool in_place = shape_.type == DataType::fp32 && !args.accumulate;
    void* const dw = in_place ? args.grad_parameters[0] : part(args, gradient_);
    check(cudnnConvolutionBackwardFilter(
              context_->cudnn, &kOne, shape_.x.get(), args.inputs[0], shape_.y.get(), dy,
              shape_.convolution(ConvolutionPass::backward_filter),
              static_cast<cudnnConvolutionBwdFilterAlgo_t>(filter_.algorithm),
              part(args, filter_workspace_), filter_.workspace_bytes, &kZero, shape_.w.get(), dw),
          shape_.where, "cudnnConvolutionBackwardFilter");
    if (in_place) return;
    check(convert_type(shape_.type, dw, DataType::fp32, args.grad_parameters[0], args.accumulate,
                       static_cast<std::uint32_t>(shape_.w_count), stream),
          shape_.where, "convert_type");
  }

  ContextPtr context_;
  ConvolutionShape shape_;
  AlgorithmChoice forward_, filter_, data_;  // of the library
  GradientPass gradient_pass_;
  std::size_t gradient_ = 0, filter_workspace_ = 0, data_workspace_ = 0;  // offsets of backward's
};

// A convolution whose sides differ in their padding, which cuDNN does not have. It runs over a copy
// of the map with the padding, and the copy's gradient is copied back without it.
class UnevenConv2d final : public Op {
 public:
  UnevenConv2d(const ContextPtr& context, const Conv2dDesc& desc) : where_(where_of(desc)) {
    const Shape& in = desc.input.shape;
    const Window2d& w = desc.window;
    const DataType type = context->activation_type();
    Conv2dDesc even = desc;
    even.window = {w.kernel_h, w.kernel_w, w.stride_h, w.stride_w};
    even.input = nhwc_layout(
        {in[0], in[1], in[2] + 2 * w.pad_h + w.more_h, in[3] + 2 * w.pad_w + w.more_w}, type);
    conv_ = make_op(context, even);  // it counts the elements
    plan_ = conv_->plan();
    plan_.inputs = {same_memory_or(desc.input, nhwc_layout(in, type))};
    copy_bytes_ = round_up(even.input.bytes, std::size_t{256});
    plan_.workspace_bytes += 2 * copy_bytes_;
    const auto narrow = [](std::int64_t count) { return static_cast<std::uint32_t>(count); };
    const std::int64_t row = in[3] * in[1], pitch = even.input.shape[3] * in[1];
    first_ = static_cast<std::size_t>(w.pad_h * pitch + w.pad_w * in[1]) * size_of(type);
    pad_ = {.type = type,
            .rows = narrow(in[0] * in[2]),
            .length = narrow(row),
            .from_pitch = narrow(row),
            .to_pitch = narrow(pitch),
            .image_rows = narrow(in[2]),
            .to_skip = narrow((even.input.shape[2] - in[2]) * pitch)};
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    ForwardArgs inner = args;
    const void* const map = pad(stream, args.inputs[0], args.workspace);
    inner.inputs = {&map, 1};
    inner.workspace = part(args.workspace, 2);
    conv_->forward(stream, inner);
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    BackwardArgs inner = args;
    const void* const map = pad(stream, args.inputs[0], args.workspace);
    void* const gradient = part(args.workspace, 1);
    inner.inputs = {&map, 1};
    if (!args.grad_inputs.empty() && args.grad_inputs[0]) inner.grad_inputs = {&gradient, 1};
    inner.workspace = part(args.workspace, 2);
    conv_->backward(stream, inner);
    if (inner.grad_inputs.data() != &gradient) return;
    PieceCopy crop = pad_;
    std::swap(crop.from_pitch, crop.to_pitch), std::swap(crop.from_skip, crop.to_skip);
    copy(stream, crop, part(gradient, 0) + first_, args.grad_inputs[0]);
  }

 private:
  // The workspace: the copy, its gradient, the convolution's own.
  std::byte* part(void* workspace, std::size_t i) const {
    return static_cast<std::byte*>(workspace) + i * copy_bytes_;
  }
  const void* pad(Stream& stream, const void* map, void* padded) const {
    check(cudaMemsetAsync(padded, 0, copy_bytes_, native_stream(stream)), where_,
          "cudaMemsetAsync");
    copy(stream, pad_, map, part(padded, 0) + first_);
    return padded;
  }
  void copy(Stream& stream, PieceCopy pieces, const void* from, void* to) const {
    pieces.from = from, pieces.to = to;
    check(copy_pieces(pieces, native_stream(stream)), where_, "copy_pieces");
  }

  std::string where_;
  std::unique_ptr<Op> conv_;
  PieceCopy pad_;
  std::size_t copy_bytes_ = 0, first_ = 0;  // where the map begins in the copy
};

}  // namespace

std::unique_ptr<Op> make_op(ContextPtr context, const Conv2dDesc& desc) {
  if (!desc.window.is_even()) return std::make_unique<UnevenConv2d>(context, desc);
  return std::make_unique<Conv2d>(std::move(context), desc, where_of(desc));
}

}  // namespace ddpbench::ops::cuda
