// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution by cuDNN: the descriptors for one shape, and the choice of algorithms.
#pragma once

#include <cudnn.h>

#include <memory>
#include <optional>
#include <string>

#include "kernels/ops/cuda/kernels/few_channels.h"
#include "kernels/ops/cuda/library/context.h"
#include "kernels/ops/op.h"

namespace ddpbench::ops::cuda {

enum class ConvolutionPass : std::uint8_t { forward, backward_data, backward_filter };

// Deletes what a cuDNN descriptor points to.
struct DescriptorDeleter {
  void operator()(cudnnTensorStruct* d) const { cudnnDestroyTensorDescriptor(d); }
  void operator()(cudnnFilterStruct* d) const { cudnnDestroyFilterDescriptor(d); }
  void operator()(cudnnConvolutionStruct* d) const { cudnnDestroyConvolutionDescriptor(d); }
  void operator()(cudnnActivationStruct* d) const { cudnnDestroyActivationDescriptor(d); }
};
template <typename Struct>
using Descriptor = std::unique_ptr<Struct, DescriptorDeleter>;

// All tensors are channels-last and of the backend's activation type; sums are fp32.
struct ConvolutionShape {
  ConvolutionShape(const Context& context, const Conv2dDesc& desc, std::string where);

  std::string where;  // "conv2d 3x3 1->32 on [8, 1, 28, 28]": begins error messages
  std::string key;    // in the algorithm cache, without the pass
  bool bias, relu, needs_grad_input;
  DataType type;
  std::int64_t x_count, w_count, y_count, out_channels;
  Descriptor<cudnnTensorStruct> x, y, bias_vector;
  Descriptor<cudnnFilterStruct> w;
  // One descriptor for each pass: it includes the arithmetic, which may differ.
  Descriptor<cudnnConvolutionStruct> convolutions[3];
  Descriptor<cudnnActivationStruct> activation;
  std::optional<FewChannelShape> few_channels;  // set where there are own kernels

  cudnnConvolutionDescriptor_t convolution(ConvolutionPass pass) const {
    return convolutions[static_cast<int>(pass)].get();
  }
};

// The library's fastest algorithm for a pass; without memory for a trial its guess. The
// arithmetic stays set in the descriptor of the pass. Throws DeviceError when no algorithm keeps to
// the options.
AlgorithmChoice tune_convolution(Context& context, const ConvolutionShape& shape,
                                 ConvolutionPass pass);

// cuDNN's call: y = x * w. If the choice is "fused", the library also adds the bias, which has the
// activations' type, and rectifies.
struct ForwardOperands {
  const void *x, *w, *bias;
  void* y;
};
cudnnStatus_t convolve(const Context& context, const ConvolutionShape& shape,
                       const AlgorithmChoice& choice, const ForwardOperands& operands,
                       void* workspace);

}  // namespace ddpbench::ops::cuda
