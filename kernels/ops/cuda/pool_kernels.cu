// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling: one thread an output pixel forward, one thread an input pixel backward; of a vector
// of channels (pool_vectors.cuh) where the maps allow it, else of one. Windows of 2 x 2 side by
// side are a thread each, both ways (pool_tiles.cuh).
#include "kernels/ops/cuda/pool_kernels.h"

#include <cmath>

#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"
#include "kernels/ops/cuda/pool_tiles.cuh"
#include "kernels/ops/cuda/pool_vectors.cuh"

namespace ddpbench::ops::cuda {
namespace {

struct Pixel {
  std::uint32_t n, c, h, w;
};

// Which pixel is the i-th of images of `height` x `width`.
__host__ __device__ inline Pixel pixel_at(std::uint32_t i, const PoolGeometry& g,
                                          std::uint32_t height, std::uint32_t width) {
  Pixel at{};
  if (g.channels_last) {
    at.c = i % g.channels;
    i /= g.channels;
  }
  at.w = i % width;
  i /= width;
  at.h = i % height;
  i /= height;
  if (!g.channels_last) {
    at.c = i % g.channels;
    i /= g.channels;
  }
  at.n = i;
  return at;
}

__host__ __device__ inline std::uint32_t offset(const ImageStrides& s, const Pixel& at) {
  return at.n * s.n + at.c * s.c + at.h * s.h + at.w * s.w;
}

template <typename T, typename Winner>
struct PoolForward {
  PoolGeometry g;
  const T* x;
  T* y;
  Winner* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const Pixel at = pixel_at(index, g, g.out_h, g.out_w);
    const T* const image = x + offset(g.input, {at.n, at.c, 0, 0});
    float best = -INFINITY;
    std::uint32_t winner = kNoGradient<Winner>;
    for (std::uint32_t p = 0; p < g.kernel_h; ++p) {
      // Above the image the difference wraps around to a row far below it.
      const std::uint32_t row = at.h * g.stride_h + p - g.pad_h;
      if (row >= g.in_h) continue;
      for (std::uint32_t q = 0; q < g.kernel_w; ++q) {
        const std::uint32_t column = at.w * g.stride_w + q - g.pad_w;
        if (column >= g.in_w) continue;
        const float value = to_float(image[row * g.input.h + column * g.input.w]);
        if (winner == kNoGradient<Winner> || value > best || is_nan(value)) {
          best = value;
          winner = p * g.kernel_w + q;
        }
      }
    }
    if (g.relu) {
      if (best <= 0) winner = kNoGradient<Winner>;
      best = relu(best);
    }
    y[index] = from_float<T>(best);
    winners[index] = static_cast<Winner>(winner);
  }
};

template <typename T, typename Winner>
struct PoolBackward {
  PoolGeometry g;
  const T* dy;
  const Winner* winners;
  T* dx;

  // The first window over a position of the padded image, and the last one that there is.
  __host__ __device__ static std::uint32_t first_window(std::uint32_t position,
                                                        std::uint32_t kernel,
                                                        std::uint32_t stride) {
    return position < kernel ? 0 : (position - kernel) / stride + 1;
  }
  __host__ __device__ static std::uint32_t end_window(std::uint32_t position, std::uint32_t stride,
                                                      std::uint32_t windows) {
    const std::uint32_t end = position / stride + 1;
    return end < windows ? end : windows;
  }

  __host__ __device__ void operator()(std::uint32_t index) const {
    const Pixel at = pixel_at(index, g, g.in_h, g.in_w);
    const std::uint32_t row = at.h + g.pad_h, column = at.w + g.pad_w;
    const std::uint32_t end_i = end_window(row, g.stride_h, g.out_h);
    const std::uint32_t end_j = end_window(column, g.stride_w, g.out_w);
    float sum = 0;
    for (std::uint32_t i = first_window(row, g.kernel_h, g.stride_h); i < end_i; ++i) {
      for (std::uint32_t j = first_window(column, g.kernel_w, g.stride_w); j < end_j; ++j) {
        const std::uint32_t mine = (row - i * g.stride_h) * g.kernel_w + column - j * g.stride_w;
        const std::uint32_t window = offset(g.output, {at.n, at.c, i, j});
        if (winners[window] == mine) sum += to_float(dy[window]);
      }
    }
    dx[index] = from_float<T>(sum);
  }
};

// Calls with_winner(Winner()) for the type that can count a window's elements.
template <typename WithWinner>
cudaError_t with_winner_type(const PoolGeometry& geometry, const WithWinner& with_winner) {
  const std::uint32_t bytes = winner_bytes(geometry.kernel_h, geometry.kernel_w);
  if (bytes == 1) return with_winner(std::uint8_t());
  if (bytes == 2) return with_winner(std::uint16_t());
  return cudaErrorInvalidValue;
}

template <typename T>
bool may_use_vectors(const PoolGeometry& g, const void* input, const void* output,
                     const void* winners) {
  return g.channels_last && g.channels % kVectorOf<T> == 0 &&
         are_vector_aligned(input, winners, output);
}

template <typename T, typename Winner>
cudaError_t forward_vectors(const PoolGeometry& g, const T* x, T* y, Winner* winners,
                            cudaStream_t stream) {
  const VectorWalk walk(g.channels, kVectorOf<T>, g.out_h, g.out_w);
  if constexpr (sizeof(Winner) == 1) {
    if (has_tiles(g)) {
      return for_each(g.output_count() / kVectorOf<T>, stream,
                      PoolForwardTiles<T>{g, walk, x, y, winners});
    }
  }
  return for_each(g.output_count() / kVectorOf<T>, stream,
                  PoolForwardVectors<T, Winner>{g, walk, x, y, winners});
}

template <typename T, typename Winner>
cudaError_t backward_vectors(const PoolGeometry& g, const T* dy, const Winner* winners, T* dx,
                             cudaStream_t stream) {
  if constexpr (sizeof(Winner) == 1) {
    using Tiles = PoolBackwardTiles<T>;
    if (has_tiles(g)) {
      const std::uint32_t rows = Tiles::tiles(g.in_h), columns = Tiles::tiles(g.in_w);
      const VectorWalk tiles(g.channels, kVectorOf<T>, rows, columns);
      return for_each(g.batch * rows * columns * (g.channels / kVectorOf<T>), stream,
                      Tiles{g, tiles, dy, winners, dx});
    }
  }
  const VectorWalk walk(g.channels, kVectorOf<T>, g.in_h, g.in_w);
  return for_each(g.input_count() / kVectorOf<T>, stream,
                  PoolBackwardVectors<T, Winner>{g, walk, Divisor(g.stride_h), Divisor(g.stride_w),
                                                 dy, winners, dx});
}

}  // namespace

std::uint32_t winner_bytes(std::uint32_t kernel_h, std::uint32_t kernel_w) {
  const std::uint64_t elements = static_cast<std::uint64_t>(kernel_h) * kernel_w;
  if (elements <= kNoGradient<std::uint8_t>) return 1;
  return elements <= kNoGradient<std::uint16_t> ? 2 : 0;
}

cudaError_t pool_forward(const PoolGeometry& geometry, const void* x, void* y, void* winners,
                         cudaStream_t stream) {
  return with_element_type(geometry.type, [&](auto element) {
    return with_winner_type(geometry, [&](auto winner) {
      using T = decltype(element);
      using Winner = decltype(winner);
      const auto* const from = static_cast<const T*>(x);
      auto* const to = static_cast<T*>(y);
      auto* const kept = static_cast<Winner*>(winners);
      if (may_use_vectors<T>(geometry, x, y, winners)) {
        return forward_vectors(geometry, from, to, kept, stream);
      }
      return for_each(geometry.output_count(), stream,
                      PoolForward<T, Winner>{geometry, from, to, kept});
    });
  });
}

cudaError_t pool_backward(const PoolGeometry& geometry, const void* dy, const void* winners,
                          void* dx, cudaStream_t stream) {
  return with_element_type(geometry.type, [&](auto element) {
    return with_winner_type(geometry, [&](auto winner) {
      using T = decltype(element);
      using Winner = decltype(winner);
      const auto* const from = static_cast<const T*>(dy);
      const auto* const kept = static_cast<const Winner*>(winners);
      auto* const to = static_cast<T*>(dx);
      if (may_use_vectors<T>(geometry, dx, dy, winners)) {
        return backward_vectors(geometry, from, kept, to, stream);
      }
      return for_each(geometry.input_count(), stream,
                      PoolBackward<T, Winner>{geometry, from, kept, to});
    });
  });
}

}  // namespace ddpbench::ops::cuda
