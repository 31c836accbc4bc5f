// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the parts of cuDNN's stand-in share: handles, tensors, and access to their elements.
#pragma once

#include <cudnn.h>

#include "kernels/ops/cuda/kernels/number.cuh"
#include "tests/cuda/host/host_stream.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int n, c, h, w;
  bool channels_last;
};

namespace ddpbench::test {

inline float load(cudnnDataType_t type, const void* data, long i) {
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float*>(data)[i];
  if (type == CUDNN_DATA_HALF) return static_cast<float>(static_cast<const _Float16*>(data)[i]);
  return ops::cuda::to_float(static_cast<const ops::cuda::Bf16*>(data)[i]);
}
inline void store(cudnnDataType_t type, void* data, long i, double value) {
  const auto rounded = static_cast<float>(value);
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(data)[i] = rounded;
  } else if (type == CUDNN_DATA_HALF) {
    static_cast<_Float16*>(data)[i] = static_cast<_Float16>(rounded);
  } else {
    static_cast<ops::cuda::Bf16*>(data)[i] = ops::cuda::from_float<ops::cuda::Bf16>(rounded);
  }
}

// A factor of a result or of what was there before.
inline float scalar(const void* value) { return *static_cast<const float*>(value); }

}  // namespace ddpbench::test
