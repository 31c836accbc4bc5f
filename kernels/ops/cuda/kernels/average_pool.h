// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Average-pooling over plain or channels-last maps. Forward reads the input and writes the output,
// one thread an output. Backward has one thread a pixel, which adds up the gradients of the windows
// that cover it: no atomics, the same sum every time. Bound by memory bandwidth; sums are fp32.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/cuda/kernels/pool_kernels.h"
#include "kernels/ops/tensor_layout.h"

namespace ddpbench::ops::cuda {

// The windows along one axis. Output i averages [begin(i), end(i)) of the map.
struct AverageAxis {
  std::uint32_t extent = 0, outputs = 0;
  std::uint32_t kernel = 0, stride = 1, pad = 0;  // kernel 0: an adaptive pool

  __host__ __device__ std::uint32_t begin(std::uint32_t i) const {
    if (kernel == 0) return static_cast<std::uint32_t>(std::uint64_t{i} * extent / outputs);
    return i * stride < pad ? 0 : i * stride - pad;
  }
  __host__ __device__ std::uint32_t end(std::uint32_t i) const {
    if (kernel == 0) {
      return static_cast<std::uint32_t>(((i + std::uint64_t{1}) * extent + outputs - 1) / outputs);
    }
    const std::uint32_t last = i * stride + kernel - pad;
    return last < extent ? last : extent;
  }
  // The windows that cover a position of the map: [first_over(position), end_over(position)).
  __host__ __device__ std::uint32_t first_over(std::uint32_t position) const {
    if (kernel == 0) return static_cast<std::uint32_t>(std::uint64_t{position} * outputs / extent);
    return position + pad < kernel ? 0 : (position + pad - kernel) / stride + 1;
  }
  __host__ __device__ std::uint32_t end_over(std::uint32_t position) const {
    if (kernel == 0) {
      return static_cast<std::uint32_t>(((position + std::uint64_t{1}) * outputs + extent - 1) /
                                        extent);
    }
    const std::uint32_t windows = (position + pad) / stride + 1;
    return windows < outputs ? windows : outputs;
  }
};

struct AverageGeometry {
  std::uint32_t batch = 0, channels = 0;
  AverageAxis rows, columns;
  ImageStrides input, output;  // densely packed maps in one order
  bool channels_last = false;  // the order of both
  std::uint32_t divisor = 0;   // of every sum; 0: the elements of its own window
  DataType type = DataType::fp32;
};

// Each is one launch. REQUIRES: fewer than 2^31 elements in each map.
cudaError_t average_forward(const AverageGeometry& geometry, const void* x, void* y,
                            cudaStream_t stream);
cudaError_t average_backward(const AverageGeometry& geometry, const void* dy, void* dx,
                             cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
