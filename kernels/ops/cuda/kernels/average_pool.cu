// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cuda/kernels/average_pool.h"

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

// A pixel of a map of rows x columns, and where its channel of its image begins.
struct AveragePixel {
  std::uint32_t n, c, row, column;
  __host__ __device__ std::uint32_t channel_in(const ImageStrides& s) const {
    return n * s.n + c * s.c;
  }
};

// Finds the i-th pixel in the order of memory.
__host__ __device__ inline AveragePixel average_pixel(const AverageGeometry& g, std::uint32_t i,
                                                      std::uint32_t rows, std::uint32_t columns) {
  AveragePixel at{};
  const auto take = [&i](std::uint32_t extent) {
    const std::uint32_t rest = i % extent;
    i /= extent;
    return rest;
  };
  if (g.channels_last) at.c = take(g.channels);
  at.column = take(columns);
  at.row = take(rows);
  if (!g.channels_last) at.c = take(g.channels);
  at.n = i;
  return at;
}

__host__ __device__ inline float window_factor(const AverageGeometry& g, std::uint32_t i,
                                               std::uint32_t j) {
  if (g.divisor > 0) return 1.0F / static_cast<float>(g.divisor);
  const std::uint32_t elements =
      (g.rows.end(i) - g.rows.begin(i)) * (g.columns.end(j) - g.columns.begin(j));
  return 1.0F / static_cast<float>(elements);
}

template <typename T>
struct AverageForward {
  AverageGeometry g;
  const T* x;
  T* y;
  __host__ __device__ void operator()(std::uint32_t index) const {
    const AveragePixel at = average_pixel(g, index, g.rows.outputs, g.columns.outputs);
    const T* const map = x + at.channel_in(g.input);
    float sum = 0;
    for (std::uint32_t row = g.rows.begin(at.row); row < g.rows.end(at.row); ++row) {
      for (std::uint32_t column = g.columns.begin(at.column); column < g.columns.end(at.column);
           ++column) {
        sum += to_float(map[row * g.input.h + column * g.input.w]);
      }
    }
    y[index] = from_float<T>(sum * window_factor(g, at.row, at.column));
  }
};

template <typename T>
struct AverageBackward {
  AverageGeometry g;
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(std::uint32_t index) const {
    const AveragePixel at = average_pixel(g, index, g.rows.extent, g.columns.extent);
    const T* const map = dy + at.channel_in(g.output);
    float sum = 0;
    for (std::uint32_t i = g.rows.first_over(at.row); i < g.rows.end_over(at.row); ++i) {
      for (std::uint32_t j = g.columns.first_over(at.column); j < g.columns.end_over(at.column);
           ++j) {
        sum += to_float(map[i * g.output.h + j * g.output.w]) * window_factor(g, i, j);
      }
    }
    dx[index] = from_float<T>(sum);
  }
};

}  // namespace

cudaError_t average_forward(const AverageGeometry& g, const void* x, void* y, cudaStream_t stream) {
  return with_element_type(g.type, [&](auto element) {
    using T = decltype(element);
    return for_each(g.batch * g.channels * g.rows.outputs * g.columns.outputs, stream,
                    AverageForward<T>{g, static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

cudaError_t average_backward(const AverageGeometry& g, const void* dy, void* dx,
                             cudaStream_t stream) {
  return with_element_type(g.type, [&](auto element) {
    using T = decltype(element);
    return for_each(g.batch * g.channels * g.rows.extent * g.columns.extent, stream,
                    AverageBackward<T>{g, static_cast<const T*>(dy), static_cast<T*>(dx)});
  });
}

}  // namespace ddpbench::ops::cuda
