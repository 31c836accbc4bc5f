// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution of images with few channels, a network's first layer; libraries pad the channels to
// 8. Forward includes bias and ReLU. The gradients of weights and bias take one pass over the
// output's gradient. The gradient of the input, which a first layer has not, is left to the
// library. Both passes also exist for a convolution whose output only a max-pool of 2 x 2 windows
// reads. Then the map between the two is never in memory.
//
// Forward reads the images and writes the output. Backward reads both (with a ReLU the output and
// its gradient), once each. With 32 outputs for one input, the output's bytes are all that counts.
// Pooled, the output is a quarter of them, and 1 byte an output says which pixel won: forward
// writes both, backward reads the gradient and that byte. With 32 fp32 outputs, a pixel of the
// convolution costs 132 bytes each way, and up to 168 more in the pool; pooled here, 44. Each pass
// has 2 * window * outputs FLOPs a pixel, window = channels * kernel * kernel. For 3 x 3, one
// channel and bf16 that is 4.4 multiply-adds a byte, close to the balance of a GPU's fp32 units and
// memory. So weights, or sums, stay in registers, and pixels are read once for several outputs.
// Pooled it is 11, and those units are the bound (fp32: 7). Products and sums are fp32 in every
// precision, and weights are read as they are stored. Pooling compares sums before they are
// rounded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/cuda/kernels/few_channel_shape.h"

namespace ddpbench::ops::cuda {

// Raised with every change of the kernels. Measured choices between them and a library's algorithms
// are kept on disk and hold only for the kernels that were measured.
inline constexpr int kFewChannelKernels = 4;

// All functions REQUIRE has_few_channel_kernels(), and fewer than 2^31 elements in each tensor.

// y = x * w + bias, pooled, then rectified where `relu`. One launch.
struct FewChannelForward {
  const void* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;  // null: none
  void* y = nullptr;
  // Pooled only, a byte an output: bit 2 i + j for the pixel in row i and column j of its window, 0
  // where the ReLU cut it off. The first of equal pixels wins; NaN wins over all.
  std::uint8_t* winners = nullptr;
  bool relu = false;
};
cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream);

// Writes the gradients of weights and bias, or adds them where `accumulate`. The order of every sum
// depends only on the shape (multiprocessors included). Two launches.
struct FewChannelGradients {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* y = nullptr;                // null: no ReLU, else dy is 0 where y <= 0; not pooled
  const std::uint8_t* winners = nullptr;  // pooled: forward's
  float* dw = nullptr;
  float* dbias = nullptr;  // null: not wanted
  bool accumulate = false;
  void* workspace = nullptr;  // few_channel_workspace_bytes()
};
std::size_t few_channel_workspace_bytes(const FewChannelShape& shape);
cudaError_t few_channel_gradients(const FewChannelShape& shape, const FewChannelGradients& args,
                                  cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
