// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Transposes a batch of matrices and converts their type on the way. Plain to channels-last is a
// transpose of [channels, pixels] for every image, and back. It reads and writes every element
// once, in whole cache lines, through tiles in shared memory; bound by memory bandwidth.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

struct Transpose {
  std::uint32_t batch = 1, rows = 0, columns = 0;  // of `from`
  DataType from_type = DataType::fp32, to_type = DataType::fp32;
  const void* from = nullptr;  // [batch, rows, columns]
  void* to = nullptr;          // [batch, columns, rows]
};
cudaError_t transpose(const Transpose& args, cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
