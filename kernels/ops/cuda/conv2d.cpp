// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// conv2d through cuDNN, channels last. 2 * batch * out * oh * ow * in * kh * kw FLOPs forward, the
// same for each gradient; bytes are those of input, output and weights, once each.
//
// Around cuDNN's calls run passes over the output, bound by memory bandwidth: backward one that
// rectifies the gradient and sums that of the bias (2 to 3 maps); forward one that adds the bias
// (2 maps), only where the chosen algorithm cannot. In bf16 the fp32 weights are rounded anew in
// every call, and their gradient, which cuDNN gives in bf16, is widened: both small.
#include "kernels/ops/cuda/column_sums.h"
#include "kernels/ops/cuda/convolution.h"
#include "kernels/ops/cuda/cuda_ops.h"
#include "kernels/ops/cuda/elementwise_kernels.h"
#include "kernels/ops/cuda/layout.h"
#include "kernels/ops/planned_op.h"
#include "kernels/runtime/error.h"

namespace ddpbench::ops::cuda {
namespace {

class Conv2d final : public PlannedOp {
 public:
  Conv2d(ContextPtr context, const Conv2dDesc& desc, const std::string& where)
      : PlannedOp(plain_plan(desc)),
        context_(std::move(context)),
        desc_(desc),
        shape_(*context_, desc, where),
        forward_(choose_algorithm(*context_, shape_, ConvolutionPass::forward)),
        backward_filter_(choose_algorithm(*context_, shape_, ConvolutionPass::backward_filter)) {
    if (desc.needs_grad_input) {
      backward_data_ = choose_algorithm(*context_, shape_, ConvolutionPass::backward_data);
    }
    plan_.inputs = {same_memory_or(desc.input, nhwc_layout(desc.input.shape, shape_.type))};
    plan_.output = nhwc_layout(plan_.output.shape, shape_.type);
    plan_.parameters[0].layout = ohwi_layout(plan_.parameters[0].shape);
    plan_.description +=
        fmt::format(" (cudnn {} algorithm {}{})", precision_name(context_->options.precision),
                    forward_.algorithm, forward_.fused ? " fused" : "");
    columns_ = static_cast<std::uint32_t>(desc.out_channels);
    y_count_ = element_index(shape_.y_count, where);
    element_index(shape_.x_count, where);
    lay_out_workspace();
  }

  void forward(Stream& stream, const ForwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const Parameters parameters = rounded_parameters(args, native);
    check(convolve(*context_, shape_, forward_,
                   {args.inputs[0], parameters.weight, parameters.bias, args.output},
                   at(args.workspace, forward_at_.library)),
          shape_.where, "cudnnConvolutionForward");
    if (forward_.fused || (!desc_.bias && !desc_.fuse_relu)) return;
    BiasRelu rest{};
    rest.type = shape_.type;
    rest.y = args.output;
    rest.bias = desc_.bias ? static_cast<const float*>(args.parameters[1]) : nullptr;
    rest.columns = columns_;
    rest.relu = desc_.fuse_relu;
    check(bias_relu(rest, y_count_, native), shape_.where, "bias_relu");
  }

  void backward(Stream& stream, const BackwardArgs& args) override {
    const cudaStream_t native = context_->use(stream);
    const void* dy = masked_gradient(args, native);
    run_backward_filter(args, dy, native);
    if (!desc_.needs_grad_input || args.grad_inputs.empty() || !args.grad_inputs[0]) return;
    const void* weight = args.parameters[0];
    if (is_rounded()) {
      weight = at(args.workspace, backward_at_.weight);
      round(args.parameters[0], at(args.workspace, backward_at_.weight), shape_.w_count, native);
    }
    check(
        convolve_backward_data(*context_, shape_, backward_data_, {weight, dy, args.grad_inputs[0]},
                               at(args.workspace, backward_at_.library)),
        shape_.where, "cudnnConvolutionBackwardData");
  }

 private:
  struct Parameters {
    const void *weight, *bias;
  };
  struct Offsets {
    std::size_t masked = 0, sums = 0, weight = 0, bias = 0, weight_gradient = 0, library = 0;
  };

  static void* at(void* workspace, std::size_t offset) {
    return static_cast<std::byte*>(workspace) + offset;
  }
  // Whether cuDNN reads parameters of another type than they are kept in.
  bool is_rounded() const { return shape_.type != DataType::fp32; }

  void lay_out_workspace() {
    const std::size_t size = size_of(shape_.type);
    const std::size_t weight_bytes = static_cast<std::size_t>(shape_.w_count) * size;
    const auto rows = static_cast<std::uint32_t>(shape_.y_count / desc_.out_channels);
    WorkspaceLayout forward, backward;
    if (is_rounded()) {
      forward_at_.weight = forward.add(weight_bytes);
      forward_at_.bias = forward.add(columns_ * size);
      backward_at_.weight = backward.add(weight_bytes);
      backward_at_.weight_gradient = backward.add(weight_bytes);
    }
    if (desc_.fuse_relu) {
      backward_at_.masked = backward.add(static_cast<std::size_t>(shape_.y_count) * size);
    }
    backward_at_.sums = backward.add(column_sums_workspace_bytes(rows, columns_));
    forward_at_.library = forward.add(forward_.workspace_bytes);
    backward_at_.library =
        backward.add(std::max(backward_filter_.workspace_bytes, backward_data_.workspace_bytes));
    plan_.workspace_bytes = std::max(forward.bytes(), backward.bytes());
  }

  Parameters rounded_parameters(const ForwardArgs& args, cudaStream_t stream) const {
    const void* const bias = desc_.bias ? args.parameters[1] : nullptr;
    if (!is_rounded()) return {args.parameters[0], bias};
    void* const weight = at(args.workspace, forward_at_.weight);
    round(args.parameters[0], weight, shape_.w_count, stream);
    if (!forward_.fused) return {weight, nullptr};
    void* const rounded_bias = at(args.workspace, forward_at_.bias);
    round(bias, rounded_bias, desc_.out_channels, stream);
    return {weight, rounded_bias};
  }

  void round(const void* from, void* to, std::int64_t count, cudaStream_t stream) const {
    check(convert_type(DataType::fp32, from, shape_.type, to, false,
                       static_cast<std::uint32_t>(count), stream),
          shape_.where, "convert_type");
  }

  // The gradient behind the ReLU. Makes the bias's gradient in the same pass.
  const void* masked_gradient(const BackwardArgs& args, cudaStream_t stream) const {
    if (!desc_.fuse_relu && !desc_.bias) return args.grad_output;
    ColumnSums pass{};
    pass.type = shape_.type;
    pass.rows = y_count_ / columns_;
    pass.columns = columns_;
    pass.gradient = args.grad_output;
    if (desc_.fuse_relu) {
      pass.output = args.output;
      pass.masked = at(args.workspace, backward_at_.masked);
    }
    pass.sums = desc_.bias ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    pass.accumulate = args.accumulate;
    pass.workspace = at(args.workspace, backward_at_.sums);
    check(column_sums(pass, stream), shape_.where, "column_sums");
    return desc_.fuse_relu ? pass.masked : args.grad_output;
  }

  void run_backward_filter(const BackwardArgs& args, const void* dy, cudaStream_t stream) const {
    void* const dw =
        is_rounded() ? at(args.workspace, backward_at_.weight_gradient) : args.grad_parameters[0];
    check(convolve_backward_filter(*context_, shape_, backward_filter_,
                                   {args.inputs[0], dy, dw, args.accumulate && !is_rounded()},
                                   at(args.workspace, backward_at_.library)),
          shape_.where, "cudnnConvolutionBackwardFilter");
    if (!is_rounded()) return;
    check(convert_type(shape_.type, dw, DataType::fp32, args.grad_parameters[0], args.accumulate,
                       static_cast<std::uint32_t>(shape_.w_count), stream),
          shape_.where, "convert_type");
  }

  ContextPtr context_;
  Conv2dDesc desc_;
  ConvolutionShape shape_;
  AlgorithmChoice forward_, backward_filter_, backward_data_;
  Offsets forward_at_, backward_at_;
  std::uint32_t columns_ = 0, y_count_ = 0;
};

}  // namespace

std::unique_ptr<Op> make_conv2d(ContextPtr context, const Conv2dDesc& desc) {
  output_shape(desc);
  const std::string where = fmt::format("{} on {}", describe(desc), to_string(desc.input.shape));
  return std::make_unique<Conv2d>(std::move(context), desc, where);
}

}  // namespace ddpbench::ops::cuda
