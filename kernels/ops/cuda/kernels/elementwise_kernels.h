// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels that work element by element, bound by memory bandwidth. `size` below is the bytes of an
// element of `type`, fp32, bf16 or fp16. As all kernels here, they only queue work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/ops/activation.h"
#include "kernels/ops/dropout_mask.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cuda {

// Moves 2 * size bytes an element.
cudaError_t activate(Activation kind, DataType type, const void* x, void* y, std::uint32_t count,
                     cudaStream_t stream);
// Moves 3 * size bytes an element.
cudaError_t activation_backward(Activation kind, DataType type, const void* y, const void* dy,
                                void* dx, std::uint32_t count, cudaStream_t stream);
// sum = a + b. `sum` may be a or b. Moves 3 * size bytes an element.
cudaError_t add(DataType type, const void* a, const void* b, void* sum, std::uint32_t count,
                cudaStream_t stream);

// y = y + bias[column] over rows of `columns` elements, then rectified where `relu`. `bias` is fp32
// and may be null. Moves 2 * size bytes an element.
struct BiasRelu {
  DataType type = DataType::fp32;
  void* y = nullptr;
  const float* bias = nullptr;
  std::uint32_t columns = 0;
  bool relu = false;
};
cudaError_t bias_relu(const BiasRelu& args, std::uint32_t count, cudaStream_t stream);

// to = from, or to += from, in another type. Moves the sizes of both types an element.
cudaError_t convert_type(DataType from_type, const void* from, DataType to_type, void* to,
                         bool accumulate, std::uint32_t count, cudaStream_t stream);

// Copies `rows` pieces of `length` elements; the pieces of a side begin `from_pitch` or `to_pitch`
// elements apart. Moves 2 * size bytes an element.
struct PieceCopy {
  DataType type = DataType::fp32;
  const void* from = nullptr;
  void* to = nullptr;
  std::uint32_t rows = 0, length = 0, from_pitch = 0, to_pitch = 0;
  // Every so many rows this many more elements are left out.
  std::uint32_t image_rows = 1, from_skip = 0, to_skip = 0;
};
cudaError_t copy_pieces(const PieceCopy& args, cudaStream_t stream);
// y = x * (0 or the mask's scale) over [samples, elements] in plain order. Moves 2 * size bytes an
// element; drawing the mask (40 multiplications for 4 elements) hides behind them, so backward
// draws it again.
struct Dropout {
  DataType type = DataType::fp32;
  const void* x = nullptr;
  void* y = nullptr;
  std::uint32_t samples = 0, elements = 0;
  DropoutMask mask;
  RandomDraw draw;
};
cudaError_t dropout(const Dropout& args, cudaStream_t stream);
// ++*counter.
cudaError_t increment(std::int64_t* counter, cudaStream_t stream);

// Values of both signs in [-1, 1) that depend on the position: the data of timed trials.
cudaError_t fill_with_pattern(DataType type, void* data, std::uint32_t count, cudaStream_t stream);

// Transposes a batch of matrices and converts their type on the way. Plain to channels-last is a
// transpose of [channels, pixels] for every image, and back. It reads and writes every element
// once, in whole cache lines, through tiles in shared memory; bound by memory bandwidth.
struct Transpose {
  std::uint32_t batch = 1, rows = 0, columns = 0;  // of `from`
  DataType from_type = DataType::fp32, to_type = DataType::fp32;
  const void* from = nullptr;  // [batch, rows, columns]
  void* to = nullptr;          // [batch, columns, rows]
};
cudaError_t transpose(const Transpose& args, cudaStream_t stream);

}  // namespace ddpbench::ops::cuda
