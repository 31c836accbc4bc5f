// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution of images with few channels, a network's first layer; libraries pad the channels to
// 8. Forward includes bias and ReLU. The gradients of weights and bias take one pass over the
// output's gradient. The gradient of the input, which a first layer does not need, is left to the
// library.
//
// Forward reads the images and writes the output. Backward reads both (with a ReLU the output and
// its gradient), once each. With 32 outputs for one input, the output's bytes are all that counts.
// Each pass has 2 * window * outputs FLOPs a pixel, window = channels * kernel * kernel. For 3 x 3,
// one channel and bf16 that is 4.4 multiply-adds a byte, close to the balance of a GPU's fp32 units
// and memory. So weights, or sums, stay in registers, and pixels are read once for several outputs.
// Products and sums are fp32 in every precision, and weights are read as they are stored.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/tensor_layout.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Images and outputs are channels-last and of `type`, weights [out, kernel, kernel, channels] fp32.
struct FewChannelShape {
  std::uint32_t batch = 0, channels = 0, in_h = 0, in_w = 0;
  std::uint32_t out_channels = 0, out_h = 0, out_w = 0;
  KernelWindow2d window;
  DataType type = DataType::fp32;
  std::uint32_t multiprocessors = 0;  // of the GPU: they set the parts of gradients' sums
};

// Whether there are kernels: 3 x 3 windows over 1 channel (stride_w 1 or 2) or 3 channels (stride_w
// 1), and 5 x 5 windows over 1 (stride_w 1). Any stride_h, padding and number of outputs.
inline bool has_few_channel_kernels(const FewChannelShape& s) {
  const KernelWindow2d& w = s.window;
  if (w.kernel_h != w.kernel_w || w.stride_w == 0) return false;
  if (w.kernel_h == 3 && s.channels == 1) return w.stride_w <= 2;
  return w.stride_w == 1 &&
         ((w.kernel_h == 3 && s.channels == 3) || (w.kernel_h == 5 && s.channels == 1));
}

// All functions REQUIRE has_few_channel_kernels(), and fewer than 2^31 elements in each tensor.

// y = x * w + bias, rectified where `relu`. One launch.
struct FewChannelForward {
  const void* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;  // null: none
  void* y = nullptr;
  bool relu = false;
};
cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream);

// Writes the gradients of weights and bias, or adds them where `accumulate`. The order of every sum
// depends only on the shape (multiprocessors included). Two launches.
struct FewChannelGradients {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* y = nullptr;  // null: no ReLU, else dy is 0 where y <= 0
  float* dw = nullptr;
  float* dbias = nullptr;  // null: not wanted
  bool accumulate = false;
  void* workspace = nullptr;  // few_channel_workspace_bytes()
};
std::size_t few_channel_workspace_bytes(const FewChannelShape& shape);
cudaError_t few_channel_gradients(const FewChannelShape& shape, const FewChannelGradients& args,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
