// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The gradient of a bias: sums over the rows of a matrix. The rows are pixels (channels last) or
// samples. The gradient of a fused ReLU is made in the same pass.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// masked = output <= 0 ? 0 : gradient; sums[c] = (accumulate ? sums[c] : 0) + sum of its column c.
//
// Moves 1 matrix, with the ReLU 3; bound by memory bandwidth. The order of every sum depends only
// on shape and type. Two launches when there are many rows, else one.
struct ColumnSums {
  DataType type = DataType::fp32;
  std::uint32_t rows = 0, columns = 0;
  // This and the next two are 16-byte aligned.
  const void* gradient = nullptr;
  const void* output = nullptr;  // null: no ReLU
  void* masked = nullptr;        // with `output` only; not the gradient itself
  float* sums = nullptr;         // null: only the mask is wanted
  bool accumulate = false;
  void* workspace = nullptr;  // column_sums_workspace_bytes()
};
std::size_t column_sums_workspace_bytes(std::uint32_t rows, std::uint32_t columns);
cudaError_t column_sums(const ColumnSums& args, cudaStream_t stream);

// Adds up the results of blocks: the sums over the rows of a small fp32 matrix. The first `split`
// columns go to `sums`, the others to `rest`; with `accumulate` they are added. One launch.
struct RowSums {
  std::uint32_t rows = 0, columns = 0;
  const float* matrix = nullptr;
  float* sums = nullptr;
  std::uint32_t split = 0;
  float* rest = nullptr;  // null: not wanted
  bool accumulate = false;
};
cudaError_t add_up_rows(const RowSums& args, cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
