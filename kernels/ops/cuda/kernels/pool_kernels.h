// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling with a fused ReLU, and with the bias of the convolution before it (op.h). Forward
// keeps each window's winner as an index in the window; backward looks, for each pixel, through the
// windows that cover it: no atomics, the same sum every time. Bound by memory bandwidth: forward
// reads the input and writes output and winners (1 byte each, 2 for windows over 254 elements),
// backward the other way round. Backward of windows of 2 x 2 side by side reads every gradient and
// winner once; of others, once for each pixel of its window, all but the first from a cache.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/cuda/kernels/pool_geometry.h"

namespace ddpbench::ops::cuda {

// As kFewChannelKernels, for the choice between pooling apart and within a convolution.
inline constexpr int kPoolKernels = 1;

// Bytes of one winner: 1 or 2; 0 when a window has more elements than 2 bytes can count.
std::uint32_t winner_bytes(std::uint32_t kernel_h, std::uint32_t kernel_w);

// Whether the kernels can add a bias: windows of 2 x 2 side by side, over channels-last maps of
// whole vectors of 16 bytes of at most 2048 (bf16: 4096) channels. Says nothing of the batch and
// extents.
bool may_add_bias(const PoolGeometry& geometry);

// One launch.
struct PoolForwardCall {
  const void* x = nullptr;
  const float* bias = nullptr;  // null: none; else REQUIRES: may_add_bias(), all 32-byte aligned
  void* y = nullptr;
  void* winners = nullptr;
};
cudaError_t pool_forward(const PoolGeometry& geometry, const PoolForwardCall& call,
                         cudaStream_t stream);

// One launch, with the bias's gradient two. That costs a row of sums a block beside what the pool
// moves; every sum is taken in an order that the geometry (with its multiprocessors) decides.
struct PoolBackwardCall {
  const void* dy = nullptr;
  const void* winners = nullptr;
  void* dx = nullptr;
  float* bias_gradient = nullptr;  // null: none; else REQUIRES as above
  bool accumulate = false;         // bias_gradient +=
  void* workspace = nullptr;       // pool_bias_workspace_bytes(), with a bias
};
std::size_t pool_bias_workspace_bytes(const PoolGeometry& geometry);
cudaError_t pool_backward(const PoolGeometry& geometry, const PoolBackwardCall& call,
                          cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
