// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of max-pooling know of the maps that they read and write.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/window2d.h"
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
  std::uint32_t multiprocessors = 0;  // of the GPU: they set how many parts the bias's gradient has

  __host__ __device__ std::uint32_t input_count() const { return batch * channels * in_h * in_w; }
  __host__ __device__ std::uint32_t output_count() const {
    return batch * channels * out_h * out_w;
  }
};

}  // namespace ddpbench::ops::cuda
