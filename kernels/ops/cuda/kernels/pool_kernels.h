// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Pooling over plain or channels-last maps.
//
// Max-pooling with a fused ReLU. Forward keeps each window's winner as an index in the window.
// Backward looks, for each pixel, through the windows that cover it: no atomics, the same sum every
// time. Bound by memory bandwidth: forward reads the input and writes output and winners (1 byte
// each, 2 for windows over 255 elements), backward the reverse. Backward of windows of 2 x 2 side
// by side reads every gradient and winner once; of others, once for each pixel of a window, all but
// the first cached.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/ops/tensor_layout.h"
#include "kernels/ops/window_axis.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// The distance in elements from one image, channel, row, column to the next.
struct ImageStrides {
  std::uint32_t n = 0, c = 0, h = 0, w = 0;
};

struct PoolGeometry {
  std::uint32_t batch = 0, channels = 0, in_h = 0, in_w = 0, out_h = 0, out_w = 0;
  KernelWindow2d window;
  ImageStrides input, output;  // densely packed maps in one order; winners as the output
  bool channels_last = false;  // the order of both
  bool relu = false;
  DataType type = DataType::fp32;

  __host__ __device__ std::uint32_t input_count() const { return batch * channels * in_h * in_w; }
  __host__ __device__ std::uint32_t output_count() const {
    return batch * channels * out_h * out_w;
  }
};

// Bytes of one winner: 1 or 2; 0 when a window has more elements than 2 bytes can count.
std::uint32_t winner_bytes(std::uint32_t kernel_h, std::uint32_t kernel_w);

// One launch each.
cudaError_t pool_forward(const PoolGeometry& geometry, const void* x, void* y, void* winners,
                         cudaStream_t stream);
cudaError_t pool_backward(const PoolGeometry& geometry, const void* dy, const void* winners,
                          void* dx, cudaStream_t stream);

// Each output is a weighted sum over a window.
template <typename Axis>
struct WindowGeometry {
  std::uint32_t batch = 0, channels = 0;
  Axis rows, columns;
  ImageStrides input, output;  // densely packed maps in one order
  bool channels_last = false;  // the order of both
  DataType type = DataType::fp32;
};

// Average-pooling (AverageAxis) and bilinear upsampling (BilinearAxis). Forward reads the input and
// writes the output, one thread an output. Backward has one thread a pixel, which adds up the
// gradients of the windows that cover it: no atomics, the same sum every time. Bound by memory
// bandwidth; sums are fp32. Each is one launch. REQUIRES: fewer than 2^31 elements in each map.
template <typename Axis>
cudaError_t window_sum_forward(const WindowGeometry<Axis>& geometry, const void* x, void* y,
                               cudaStream_t stream);
template <typename Axis>
cudaError_t window_sum_backward(const WindowGeometry<Axis>& geometry, const void* dy, void* dx,
                                cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
