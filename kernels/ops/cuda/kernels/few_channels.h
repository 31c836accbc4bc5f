// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Convolution of images with few channels, which libraries pad to 8: the first layer of a network.
// Forward with bias and ReLU in the same pass, the gradients of weights and bias in one pass over
// the output's gradient; that of the input is left to the library, a first layer has none. Both
// also for a convolution whose output only a max-pool of 2 x 2 windows reads: then the map between
// the two is never in memory, forward or backward.
//
// Forward reads the images and writes the output, backward reads both (with a ReLU the output and
// its gradient), once each: with 32 outputs for one input the output's bytes are all that counts.
// Pooled it is a quarter of them, beside 1 byte an output that says which pixel won: forward writes
// both, backward reads the gradient and that byte. A pixel of the convolution with 32 outputs in
// fp32 is 132 bytes each way, and as many as 168 more in the pool; pooled here, 44.
// 2 * window * outputs FLOPs a pixel of the convolution each, window = channels * kernel * kernel:
// for 3 x 3, one channel and bf16 4.4 multiply-adds a byte, which is close to what a GPU's fp32
// units do in the time that its memory needs; hence weights, or sums, stay in registers and pixels
// are read once for several outputs. Pooled it is 11, so those units are the bound (fp32: 7).
// Products and sums are fp32's in every precision, and weights are read as they are kept. Pooling
// compares sums before they are rounded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/cuda/kernels/few_channel_shape.h"

namespace ddpbench::ops::cuda {

// Raised with every change of the kernels: measured choices between them and a library's algorithms
// are kept on disk, and hold for the kernels that were measured.
inline constexpr int kFewChannelKernels = 4;

// All functions REQUIRE has_few_channel_kernels(), and that all tensors have fewer than 2^31
// elements.

// y = x * w + bias, pooled, then rectified where `relu`. One launch.
struct FewChannelForward {
  const void* x = nullptr;
  const float* w = nullptr;
  const float* bias = nullptr;  // null: none
  void* y = nullptr;
  // Pooled only, a byte an output: bit 2 i + j for the pixel in row i and column j of its window, 0
  // where the ReLU cut it off. Of equal ones the first wins, NaN wins over all.
  std::uint8_t* winners = nullptr;
  bool relu = false;
};
cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream);

// The gradients of weights and bias, or those += them where `accumulate`. Every sum is taken in an
// order that depends on the shape (with its multiprocessors) only. Two launches.
struct FewChannelGradients {
  const void* x = nullptr;
  const void* dy = nullptr;
  const void* y = nullptr;                // null: no ReLU, else dy counts where y > 0; not pooled
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
