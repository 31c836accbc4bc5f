// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/library/convolution_pass.h"

#include "kernels/ops/cuda/kernels/elementwise_kernels.h"
#include "kernels/ops/cuda/kernels/few_channels.h"

namespace ddpbench::ops::cuda {
namespace {

void* at(void* workspace, std::size_t offset) {
  return static_cast<std::byte*>(workspace) + offset;
}

// Whether cuDNN reads parameters of another type than the stored one.
bool has_bf16_weights(const ConvolutionShape& shape) { return shape.type != DataType::fp32; }

std::size_t bytes_of(const ConvolutionShape& shape, std::int64_t count) {
  return static_cast<std::size_t>(count) * size_of(shape.type);
}

}  // namespace

ForwardPass::ForwardPass(const Context& context, const ConvolutionShape& shape,
                         const AlgorithmChoice& choice)
    : context_(context), shape_(shape), choice_(choice) {}

void ForwardPass::run(const ForwardArgs& args, cudaStream_t stream) const {
  const auto* const bias = shape_.bias ? static_cast<const float*>(args.parameters[1]) : nullptr;
  if (!is_own()) return run_library(args, bias, stream);
  FewChannelForward own{};
  own.x = args.inputs[0];
  own.w = static_cast<const float*>(args.parameters[0]);
  own.bias = bias;
  own.y = args.output;
  own.relu = shape_.relu;
  check(few_channel_forward(*shape_.few_channels, own, stream), shape_.where,
        "few_channel_forward");
}

void ForwardPass::run_library(const ForwardArgs& args, const float* bias,
                              cudaStream_t stream) const {
  const auto parameters = parameters_beside(shape_.type, args);
  const void* const weight = parameters[0];
  const void* const library_bias = choice_.fused ? parameters[1] : nullptr;
  check(convolve(context_, shape_, choice_, {args.inputs[0], weight, library_bias, args.output},
                 args.workspace),
        shape_.where, "cudnnConvolutionForward");
  if (choice_.fused || (!shape_.bias && !shape_.relu)) return;
  BiasRelu rest{};
  rest.type = shape_.type;
  rest.y = args.output;
  rest.bias = bias;
  rest.columns = static_cast<std::uint32_t>(shape_.out_channels);
  rest.relu = shape_.relu;
  check(bias_relu(rest, static_cast<std::uint32_t>(shape_.y_count), stream), shape_.where,
        "bias_relu");
}

FilterPass::FilterPass(const Context& context, const ConvolutionShape& shape,
                       const AlgorithmChoice& choice)
    : context_(context), shape_(shape), choice_(choice) {
  const auto columns = static_cast<std::uint32_t>(shape.out_channels);
  if (!is_one_pass()) {
    gradient_pass_ = GradientPass({.type = shape.type,
                                   .rows = static_cast<std::uint32_t>(shape.y_count) / columns,
                                   .columns = columns,
                                   .relu = shape.relu,
                                   .bias = shape.bias},
                                  layout_);
  }
  if (!is_own(choice)) gradient_ = layout_.add(bytes_of(shape, shape.w_count));
  library_ = layout_.add(choice.workspace_bytes);
}

// Whether the own kernel rectifies and sums the bias's gradient itself. It does not where the
// input's gradient needs the rectified gradient, too.
bool FilterPass::is_one_pass() const {
  return is_own(choice_) && !(shape_.relu && shape_.needs_grad_input);
}

const void* FilterPass::run(const BackwardArgs& args, cudaStream_t stream) const {
  const void* const dy =
      is_one_pass() ? args.grad_output : gradient_pass_.run(args, stream, shape_.where);
  if (is_own(choice_)) {
    run_own(args, dy, stream);
  } else {
    run_library(args, dy, stream);
  }
  return dy;
}

void FilterPass::run_own(const BackwardArgs& args, const void* dy, cudaStream_t stream) const {
  FewChannelGradients own{};
  own.x = args.inputs[0];
  own.dy = dy;
  own.dw = static_cast<float*>(args.grad_parameters[0]);
  own.accumulate = args.accumulate;
  own.workspace = at(args.workspace, library_);
  if (is_one_pass()) {
    own.y = shape_.relu ? args.output : nullptr;
    own.dbias = shape_.bias ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
  }
  check(few_channel_gradients(*shape_.few_channels, own, stream), shape_.where,
        "few_channel_gradients");
}

void FilterPass::run_library(const BackwardArgs& args, const void* dy, cudaStream_t stream) const {
  const bool in_place = !has_bf16_weights(shape_) && !args.accumulate;
  void* const dw = in_place ? args.grad_parameters[0] : at(args.workspace, gradient_);
  check(convolve_backward_filter(context_, shape_, choice_, {args.inputs[0], dy, dw},
                                 at(args.workspace, library_)),
        shape_.where, "cudnnConvolutionBackwardFilter");
  if (in_place) return;
  check(convert_type(shape_.type, dw, DataType::fp32, args.grad_parameters[0], args.accumulate,
                     static_cast<std::uint32_t>(shape_.w_count), stream),
        shape_.where, "convert_type");
}

DataPass::DataPass(const Context& context, const ConvolutionShape& shape,
                   const AlgorithmChoice& choice)
    : context_(context), shape_(shape), choice_(choice) {}

void DataPass::run(const BackwardArgs& args, const void* dy, void* workspace) const {
  const void* const weight = parameters_beside(shape_.type, args)[0];
  check(convolve_backward_data(context_, shape_, choice_, {weight, dy, args.grad_inputs[0]},
                               workspace),
        shape_.where, "cudnnConvolutionBackwardData");
}

}  // namespace ddpbench::ops::cuda
