// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling: one thread for each output pixel forward, for each input pixel backward. It takes a
// vector of channels (pool_vectors.cuh) where the maps allow it, else one. Windows of 2 x 2 side by
// side have one thread each, both ways (pool_tiles.cuh).
#include "kernels/ops/cuda/kernels/pool_kernels.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/cuda/kernels/column_sums.h"
#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"
#include "kernels/ops/cuda/kernels/pool_tiles.cuh"
#include "kernels/ops/cuda/kernels/pool_vectors.cuh"

namespace ddpbench::ops::cuda {
namespace {

struct Pixel {
  std::uint32_t n, c, h, w;
};

// Finds the i-th pixel of images of `height` x `width`.
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
    for (std::uint32_t p = 0; p < g.window.kernel_h; ++p) {
      // Above the image the difference wraps around to a row far below it.
      const std::uint32_t row = at.h * g.window.stride_h + p - g.window.pad_h;
      if (row >= g.in_h) continue;
      for (std::uint32_t q = 0; q < g.window.kernel_w; ++q) {
        const std::uint32_t column = at.w * g.window.stride_w + q - g.window.pad_w;
        if (column >= g.in_w) continue;
        const float value = to_float(image[row * g.input.h + column * g.input.w]);
        if (winner == kNoGradient<Winner> || exceeds(value, best)) {
          best = value;
          winner = p * g.window.kernel_w + q;
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

  // The first window over a position of the padded image, and the end of those that cover it.
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
    const std::uint32_t row = at.h + g.window.pad_h, column = at.w + g.window.pad_w;
    const std::uint32_t end_i = end_window(row, g.window.stride_h, g.out_h);
    const std::uint32_t end_j = end_window(column, g.window.stride_w, g.out_w);
    float sum = 0;
    for (std::uint32_t i = first_window(row, g.window.kernel_h, g.window.stride_h); i < end_i;
         ++i) {
      for (std::uint32_t j = first_window(column, g.window.kernel_w, g.window.stride_w); j < end_j;
           ++j) {
        const std::uint32_t mine =
            (row - i * g.window.stride_h) * g.window.kernel_w + column - j * g.window.stride_w;
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
  const std::uint32_t bytes = winner_bytes(geometry.window.kernel_h, geometry.window.kernel_w);
  if (bytes == 1) return with_winner(std::uint8_t());
  if (bytes == 2) return with_winner(std::uint16_t());
  return cudaErrorInvalidValue;
}

// Whether these addresses of maps and winners allow 16-byte accesses.
template <typename T, typename... Pointers>
bool may_use_vectors(const PoolGeometry& g, const Pointers*... addresses) {
  return g.channels_last && g.channels % kVectorOf<T> == 0 && are_vector_aligned(addresses...);
}

template <typename T>
cudaError_t forward_tiles(const PoolGeometry& g, const PoolForwardCall& call, cudaStream_t stream) {
  const VectorWalk walk(g.channels, kVectorOf<T>, g.out_h, g.out_w);
  return for_each(
      g.output_count() / kVectorOf<T>, stream,
      PoolForwardTiles<T>{g, walk, static_cast<const T*>(call.x), call.bias,
                          static_cast<T*>(call.y), static_cast<std::uint8_t*>(call.winners)});
}

template <typename T, typename Winner>
cudaError_t forward_windows(const PoolGeometry& g, const PoolForwardCall& call,
                            cudaStream_t stream) {
  const auto* const x = static_cast<const T*>(call.x);
  auto* const y = static_cast<T*>(call.y);
  auto* const winners = static_cast<Winner*>(call.winners);
  if (!may_use_vectors<T>(g, x, y, winners)) {
    return for_each(g.output_count(), stream, PoolForward<T, Winner>{g, x, y, winners});
  }
  const VectorWalk walk(g.channels, kVectorOf<T>, g.out_h, g.out_w);
  return for_each(g.output_count() / kVectorOf<T>, stream,
                  PoolForwardVectors<T, Winner>{g, walk, x, y, winners});
}

// The number of tiles, cut ones included, in vectors of channels.
template <typename T>
std::uint32_t tile_count(const PoolGeometry& g) {
  using Tiles = PoolBackwardTiles<T>;
  return g.batch * Tiles::tiles(g.in_h) * Tiles::tiles(g.in_w) * (g.channels / kVectorOf<T>);
}

// How the gradient of a bias is summed.
struct BiasParts {
  std::uint32_t threads, blocks;
};
template <typename T>
BiasParts bias_parts(const PoolGeometry& g) {
  using Body = PoolBackwardTilesWithBias<T>;
  const std::uint32_t vectors = g.channels / kVectorOf<T>;
  const std::uint32_t threads = Body::kThreads / vectors * vectors;
  const std::uint32_t needed = ceil_div(tile_count<T>(g), threads);
  return {threads, std::min(needed, g.multiprocessors * Body::kBlocksEach)};
}

template <typename T>
cudaError_t backward_tiles_with_bias(const PoolBackwardTiles<T>& tiles,
                                     const PoolBackwardCall& call, cudaStream_t stream) {
  const auto [threads, blocks] = bias_parts<T>(tiles.g);
  auto* const sums = static_cast<float*>(call.workspace);
  const cudaError_t status = for_each_block(
      blocks, stream,
      PoolBackwardTilesWithBias<T>{tiles, tile_count<T>(tiles.g), threads, sums, blocks});
  if (status != cudaSuccess) return status;
  RowSums rows{};
  rows.rows = blocks;
  rows.columns = rows.split = tiles.g.channels;
  rows.matrix = sums;
  rows.sums = call.bias_gradient;
  rows.accumulate = call.accumulate;
  return add_up_rows(rows, stream);
}

template <typename T>
cudaError_t backward_tiles(const PoolGeometry& g, const PoolBackwardCall& call,
                           cudaStream_t stream) {
  using Tiles = PoolBackwardTiles<T>;
  const VectorWalk walk(g.channels, kVectorOf<T>, Tiles::tiles(g.in_h), Tiles::tiles(g.in_w));
  const Tiles tiles{g, walk, static_cast<const T*>(call.dy),
                    static_cast<const std::uint8_t*>(call.winners), static_cast<T*>(call.dx)};
  if (call.bias_gradient != nullptr) return backward_tiles_with_bias(tiles, call, stream);
  return for_each(tile_count<T>(g), stream, tiles);
}

template <typename T, typename Winner>
cudaError_t backward_windows(const PoolGeometry& g, const PoolBackwardCall& call,
                             cudaStream_t stream) {
  const auto* const dy = static_cast<const T*>(call.dy);
  const auto* const winners = static_cast<const Winner*>(call.winners);
  auto* const dx = static_cast<T*>(call.dx);
  if (!may_use_vectors<T>(g, dx, dy, winners)) {
    return for_each(g.input_count(), stream, PoolBackward<T, Winner>{g, dy, winners, dx});
  }
  const VectorWalk walk(g.channels, kVectorOf<T>, g.in_h, g.in_w);
  return for_each(g.input_count() / kVectorOf<T>, stream,
                  PoolBackwardVectors<T, Winner>{g, walk, Divisor(g.window.stride_h),
                                                 Divisor(g.window.stride_w), dy, winners, dx});
}

}  // namespace

std::uint32_t winner_bytes(std::uint32_t kernel_h, std::uint32_t kernel_w) {
  const std::uint64_t elements = static_cast<std::uint64_t>(kernel_h) * kernel_w;
  if (elements <= kNoGradient<std::uint8_t>) return 1;
  return elements <= kNoGradient<std::uint16_t> ? 2 : 0;
}

bool may_add_bias(const PoolGeometry& g) {
  const std::uint32_t vector = kVectorBytes / static_cast<std::uint32_t>(size_of(g.type));
  return has_tiles(g) && g.channels_last && g.channels % vector == 0 &&
         g.channels / vector <= PoolBackwardTilesWithBias<float>::kThreads;
}

std::size_t pool_bias_workspace_bytes(const PoolGeometry& g) {
  const BiasParts parts = g.type == DataType::bf16 ? bias_parts<Bf16>(g) : bias_parts<float>(g);
  return std::size_t{parts.blocks} * g.channels * sizeof(float);
}

cudaError_t pool_forward(const PoolGeometry& geometry, const PoolForwardCall& call,
                         cudaStream_t stream) {
  return with_element_type(geometry.type, [&](auto element) {
    using T = decltype(element);
    if (has_tiles(geometry) && may_use_vectors<T>(geometry, call.x, call.y, call.winners)) {
      return forward_tiles<T>(geometry, call, stream);
    }
    if (call.bias != nullptr) return cudaErrorInvalidValue;
    return with_winner_type(geometry, [&](auto winner) {
      return forward_windows<T, decltype(winner)>(geometry, call, stream);
    });
  });
}

cudaError_t pool_backward(const PoolGeometry& geometry, const PoolBackwardCall& call,
                          cudaStream_t stream) {
  return with_element_type(geometry.type, [&](auto element) {
    using T = decltype(element);
    if (has_tiles(geometry) && may_use_vectors<T>(geometry, call.dx, call.dy, call.winners)) {
      return backward_tiles<T>(geometry, call, stream);
    }
    if (call.bias_gradient != nullptr) return cudaErrorInvalidValue;
    return with_winner_type(geometry, [&](auto winner) {
      return backward_windows<T, decltype(winner)>(geometry, call, stream);
    });
  });
}

}  // namespace ddpbench::ops::cuda
