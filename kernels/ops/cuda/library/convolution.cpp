// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's descriptors of a convolution, and its three calls.
#include "kernels/ops/cuda/library/convolution.h"

#include <limits>

#include "base/error.h"
#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {
namespace {

template <typename Struct, typename Create>
Descriptor<Struct> create(const Create& create_descriptor, const std::string& where) {
  Struct* descriptor = nullptr;
  check(create_descriptor(&descriptor), where, "creating a cuDNN descriptor");
  return Descriptor<Struct>(descriptor);
}

int narrow(std::int64_t value, const std::string& where) {
  if (value > std::numeric_limits<int>::max())
    throw DeviceError(fmt::format("{}: {} is more than cuDNN can count", where, value));
  return static_cast<int>(value);
}

Descriptor<cudnnTensorStruct> image(const Shape& shape, DataType type, const std::string& where) {
  auto descriptor = create<cudnnTensorStruct>(cudnnCreateTensorDescriptor, where);
  check(cudnnSetTensor4dDescriptor(descriptor.get(), CUDNN_TENSOR_NHWC, cudnn_type(type),
                                   narrow(shape[0], where), narrow(shape[1], where),
                                   narrow(shape[2], where), narrow(shape[3], where)),
        where, "cudnnSetTensor4dDescriptor");
  return descriptor;
}

Descriptor<cudnnFilterStruct> filter(const Shape& shape, DataType type, const std::string& where) {
  auto descriptor = create<cudnnFilterStruct>(cudnnCreateFilterDescriptor, where);
  check(cudnnSetFilter4dDescriptor(descriptor.get(), cudnn_type(type), CUDNN_TENSOR_NHWC,
                                   narrow(shape[0], where), narrow(shape[1], where),
                                   narrow(shape[2], where), narrow(shape[3], where)),
        where, "cudnnSetFilter4dDescriptor");
  return descriptor;
}

Descriptor<cudnnConvolutionStruct> convolution(const Conv2dDesc& d, const std::string& where) {
  auto descriptor = create<cudnnConvolutionStruct>(cudnnCreateConvolutionDescriptor, where);
  const Window2d& w = d.window;
  check(cudnnSetConvolution2dDescriptor(
            descriptor.get(), narrow(w.pad_h, where), narrow(w.pad_w, where),
            narrow(w.stride_h, where), narrow(w.stride_w, where), narrow(d.dilation.h, where),
            narrow(d.dilation.w, where), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        where, "cudnnSetConvolution2dDescriptor");
  check(cudnnSetConvolutionGroupCount(descriptor.get(), narrow(d.groups, where)), where,
        "cudnnSetConvolutionGroupCount");
  return descriptor;
}

std::string key_of(const Context& context, const Conv2dDesc& d) {
  const Window2d& w = d.window;
  std::string key = fmt::format(
      "{}|x {}|out {}|kernel {}x{}|stride {}x{}|pad {}x{}|bias {}|relu {}|dx {}", context.machine,
      to_string(d.input.shape), d.out_channels, w.kernel_h, w.kernel_w, w.stride_h, w.stride_w,
      w.pad_h, w.pad_w, d.bias ? 1 : 0, d.fuse_relu ? 1 : 0, d.needs_grad_input ? 1 : 0);
  // Only where there are any, so that older choices for other convolutions still hold.
  if (d.dilation != Dilation2d{}) key += fmt::format("|dilation {}x{}", d.dilation.h, d.dilation.w);
  if (d.groups != 1) key += fmt::format("|groups {}", d.groups);
  return key;
}

std::optional<FewChannelShape> few_channel_shape(const Context& context, const Conv2dDesc& d,
                                                 const std::string& where) {
  if (d.groups != 1 || d.dilation != Dilation2d{}) return std::nullopt;
  const auto index = [&](std::int64_t extent) { return element_index(extent, where); };
  const Shape& in = d.input.shape;
  const Shape out = output_shape(d);
  FewChannelShape s{};
  s.batch = index(in[0]), s.channels = index(in[1]), s.in_h = index(in[2]), s.in_w = index(in[3]);
  s.out_channels = index(out[1]), s.out_h = index(out[2]), s.out_w = index(out[3]);
  const Window2d& w = d.window;
  s.window = {index(w.kernel_h), index(w.kernel_w), index(w.stride_h),
              index(w.stride_w), index(w.pad_h),    index(w.pad_w)};
  s.type = context.activation_type();
  s.multiprocessors = multiprocessors_of(context, where);
  return has_few_channel_kernels(s) ? std::optional(s) : std::nullopt;
}

}  // namespace

bool may_run_own_kernels(const Context& context, const Conv2dDesc& desc) {
  return context.options.convolutions != ConvolutionKernels::library &&
         few_channel_shape(context, desc, where_of(desc)).has_value();
}

ConvolutionShape::ConvolutionShape(const Context& context, const Conv2dDesc& desc,
                                   std::string where_text)
    : where(std::move(where_text)),
      key(key_of(context, desc)),
      bias(desc.bias),
      relu(desc.fuse_relu),
      needs_grad_input(desc.needs_grad_input),
      type(context.activation_type()),
      few_channels(few_channel_shape(context, desc, where)) {
  if (few_channels) key += fmt::format("|own kernels {}", kFewChannelKernels);
  const Shape& input = desc.input.shape;
  const Shape weight = weight_shape(desc);
  const Shape output = output_shape(desc);
  x_count = element_count(input), w_count = element_count(weight), y_count = element_count(output);
  out_channels = desc.out_channels;
  x = image(input, type, where);
  y = image(output, type, where);
  bias_vector = image({1, desc.out_channels, 1, 1}, type, where);
  w = filter(weight, type, where);
  for (auto& pass : convolutions) pass = cuda::convolution(desc, where);
  activation = create<cudnnActivationStruct>(cudnnCreateActivationDescriptor, where);
  // An activation may be refused with NaN propagation; the own pass after the call then has it.
  // Without an activation it is not needed. The last argument bounds what a ReLU lets pass.
  check(cudnnSetActivationDescriptor(activation.get(),
                                     relu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
                                     relu ? CUDNN_PROPAGATE_NAN : CUDNN_NOT_PROPAGATE_NAN,
                                     std::numeric_limits<double>::max()),
        where, "cudnnSetActivationDescriptor");
}

cudnnStatus_t convolve(const Context& context, const ConvolutionShape& s,
                       const AlgorithmChoice& choice, const ForwardOperands& o, void* workspace) {
  const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm);
  const cudnnConvolutionDescriptor_t convolution = s.convolution(ConvolutionPass::forward);
  if (!choice.fused) {
    return cudnnConvolutionForward(context.cudnn, &kOne, s.x.get(), o.x, s.w.get(), o.w,
                                   convolution, algorithm, workspace, choice.workspace_bytes,
                                   &kZero, s.y.get(), o.y);
  }
  // y = activation(1 * conv(x) + 0 * z + bias). With a factor of zero, z (here y) is not read.
  return cudnnConvolutionBiasActivationForward(
      context.cudnn, &kOne, s.x.get(), o.x, s.w.get(), o.w, convolution, algorithm, workspace,
      choice.workspace_bytes, &kZero, s.y.get(), o.y, s.bias_vector.get(), o.bias,
      s.activation.get(), s.y.get(), o.y);
}

cudnnStatus_t convolve_backward_data(const Context& context, const ConvolutionShape& s,
                                     const AlgorithmChoice& choice, const DataOperands& o,
                                     void* workspace) {
  return cudnnConvolutionBackwardData(context.cudnn, &kOne, s.w.get(), o.w, s.y.get(), o.dy,
                                      s.convolution(ConvolutionPass::backward_data),
                                      static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm),
                                      workspace, choice.workspace_bytes, &kZero, s.x.get(), o.dx);
}

cudnnStatus_t convolve_backward_filter(const Context& context, const ConvolutionShape& s,
                                       const AlgorithmChoice& choice, const FilterOperands& o,
                                       void* workspace) {
  return cudnnConvolutionBackwardFilter(
      context.cudnn, &kOne, s.x.get(), o.x, s.y.get(), o.dy,
      s.convolution(ConvolutionPass::backward_filter),
      static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm), workspace,
      choice.workspace_bytes, &kZero, s.w.get(), o.dw);
}

}  // namespace ddpbench::ops::cuda
