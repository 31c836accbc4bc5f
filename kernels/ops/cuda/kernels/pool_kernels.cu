// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling: one thread for each output pixel forward, for each input pixel backward, or for each
// window of 2 x 2 side by side. It takes kCount neighbouring channels: a 16-byte vector of
// channels-last maps, so that a warp reads and writes whole lines and a pixel's position is
// computed once for all of them, or one channel of any map.
#include "kernels/ops/cuda/kernels/pool_kernels.h"

#include <type_traits>

#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace {

// The winner of a window whose maximum the fused ReLU cut off. A window has fewer elements.
template <typename Winner>
constexpr Winner kNoGradient = static_cast<Winner>(~Winner{0});

// Winners of 1 or 2 bytes each; those of a vector are packed into words.
template <typename Winner, std::uint32_t kCount>
__host__ __device__ void write_winners(Winner* to, const std::uint32_t (&winners)[kCount]) {
  if constexpr (kCount == 1) {
    *to = static_cast<Winner>(winners[0]);
  } else {
    constexpr std::uint32_t kBits = 8 * sizeof(Winner), kInWord = 32 / kBits;
    Words<kCount / kInWord> words{};
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      words.word[k / kInWord] |= (winners[k] & kNoGradient<Winner>) << (k % kInWord * kBits);
    }
    write_words(to, words);
  }
}
template <typename Winner, std::uint32_t kCount>
__host__ __device__ void read_winners(const Winner* from, std::uint32_t (&winners)[kCount]) {
  if constexpr (kCount == 1) {
    winners[0] = *from;
  } else {
    constexpr std::uint32_t kBits = 8 * sizeof(Winner), kInWord = 32 / kBits;
    const auto words = read_words<kCount / kInWord>(from);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      winners[k] = words.word[k / kInWord] >> (k % kInWord * kBits) & kNoGradient<Winner>;
    }
  }
}

// Finds the channels and the pixel of the i-th piece of a map, in the order of memory.
struct PoolWalk {
  struct Place {
    std::uint32_t n, h, w, piece;
  };
  __host__ __device__ Place place(std::uint32_t i) const {
    Place at{};
    if (channels_last) at.piece = pieces.split(i);
    at.w = columns.split(i);
    at.h = rows.split(i);
    if (!channels_last) at.piece = pieces.split(i);
    at.n = i;
    return at;
  }

  bool channels_last;
  Divisor pieces, rows, columns;
};

// `count`: the channels of a piece.
template <typename Geometry>
PoolWalk walk_over(const Geometry& g, std::uint32_t rows, std::uint32_t columns,
                   std::uint32_t count = 1) {
  return {g.channels_last, Divisor(g.channels / count), Divisor(rows), Divisor(columns)};
}

constexpr std::uint32_t kPoolTile = 2;  // pixels a side of windows that lie side by side

// kTiles: the windows are such tiles, whose four reads are in flight before the first comparison.
// The first of equal elements stays; NaN is larger than all.
template <typename T, typename Winner, std::uint32_t kCount, bool kTiles>
struct PoolForward {
  PoolGeometry g;
  PoolWalk walk;  // of the output
  const T* x;
  T* y;
  Winner* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const T* const image = x + at.n * g.input.n + at.piece * kCount * g.input.c;
    const KernelWindow2d& w = g.window;
    const std::uint32_t kernel_h = kTiles ? kPoolTile : w.kernel_h;
    const std::uint32_t kernel_w = kTiles ? kPoolTile : w.kernel_w;
    // Above the image, or left of it, the difference wraps around to far beyond its other end.
    const std::uint32_t top = kTiles ? at.h * kPoolTile : at.h * w.stride_h - w.pad_h;
    const std::uint32_t left = kTiles ? at.w * kPoolTile : at.w * w.stride_w - w.pad_w;
    float best[kCount] = {};
    std::uint32_t winner[kCount] = {};
    bool first = true;  // every window has an element
    DDPBENCH_UNROLL
    for (std::uint32_t p = 0; p < kernel_h; ++p) {
      if (!kTiles && top + p >= g.in_h) continue;
      DDPBENCH_UNROLL
      for (std::uint32_t q = 0; q < kernel_w; ++q) {
        if (!kTiles && left + q >= g.in_w) continue;
        float value[kCount];
        load(image + (top + p) * g.input.h + (left + q) * g.input.w, value);
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kCount; ++k) {
          const bool is_nan = value[k] != value[k];
          if (!first && !is_nan && !(value[k] > best[k])) continue;
          best[k] = value[k];
          winner[k] = p * kernel_w + q;
        }
        first = false;
      }
    }
    if (g.relu) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) {
        if (best[k] <= 0) winner[k] = kNoGradient<Winner>;
        best[k] = relu(best[k]);
      }
    }
    store(y + index * kCount, best);
    write_winners(winners + index * kCount, winner);
  }
};

template <typename T, typename Winner, std::uint32_t kCount>
struct PoolBackward {
  PoolGeometry g;
  PoolWalk walk;  // of the input
  Divisor stride_h, stride_w;
  const T* dy;
  const Winner* winners;
  T* dx;

  // The first window over a position of the padded image, and the end of those that cover it.
  __host__ __device__ static std::uint32_t first_window(std::uint32_t position,
                                                        std::uint32_t kernel,
                                                        const Divisor& stride) {
    return position < kernel ? 0 : stride.quotient(position - kernel) + 1;
  }
  __host__ __device__ static std::uint32_t end_window(std::uint32_t position, const Divisor& stride,
                                                      std::uint32_t windows) {
    const std::uint32_t end = stride.quotient(position) + 1;
    return end < windows ? end : windows;
  }

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const std::uint32_t row = at.h + g.window.pad_h, column = at.w + g.window.pad_w;
    const std::uint32_t end_i = end_window(row, stride_h, g.out_h);
    const std::uint32_t end_j = end_window(column, stride_w, g.out_w);
    const std::uint32_t first_j = first_window(column, g.window.kernel_w, stride_w);
    const std::uint32_t image = at.n * g.output.n + at.piece * kCount * g.output.c;
    float sum[kCount] = {};
    for (std::uint32_t i = first_window(row, g.window.kernel_h, stride_h); i < end_i; ++i) {
      for (std::uint32_t j = first_j; j < end_j; ++j) {
        const std::uint32_t mine =
            (row - i * g.window.stride_h) * g.window.kernel_w + column - j * g.window.stride_w;
        const std::uint32_t from = image + i * g.output.h + j * g.output.w;
        std::uint32_t winner[kCount];
        read_winners(winners + from, winner);
        float gradient[kCount];
        load(dy + from, gradient);
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kCount; ++k) {
          sum[k] += winner[k] == mine ? gradient[k] : 0.0F;
        }
      }
    }
    store(dx + index * kCount, sum);
  }
};

// Over tiles of channels-last maps of whole vectors. No pixel is in two windows, so a thread reads
// a window's gradient and winners once and writes its four pixels. Where the number of rows or
// columns is odd, the last one is in no window: its tiles have no gradient, and their pixels are
// set to zero.
template <typename T>
struct PoolBackwardTiles {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  PoolWalk walk;  // of the tiles, cut ones included
  const T* dy;
  const std::uint8_t* winners;
  T* dx;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    float gradient[kCount] = {};
    std::uint32_t winner[kCount] = {};
    if (at.h < g.out_h && at.w < g.out_w) {
      const std::uint32_t from =
          at.n * g.output.n + at.h * g.output.h + at.w * g.output.w + at.piece * kCount;
      read_winners(winners + from, winner);
      load(dy + from, gradient);
    }
    T* const tile = dx + at.n * g.input.n + at.h * kPoolTile * g.input.h +
                    at.w * kPoolTile * g.input.w + at.piece * kCount;
    const std::uint32_t rows = g.in_h - at.h * kPoolTile, columns = g.in_w - at.w * kPoolTile;
    DDPBENCH_UNROLL
    for (std::uint32_t element = 0; element < kPoolTile * kPoolTile; ++element) {
      const std::uint32_t row = element / kPoolTile, column = element % kPoolTile;
      // Every tile has at least its first row and column.
      if ((row > 0 && row >= rows) || (column > 0 && column >= columns)) continue;
      float passed[kCount];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) {
        passed[k] = winner[k] == element ? gradient[k] : 0.0F;
      }
      store(tile + row * g.input.h + column * g.input.w, passed);
    }
  }
};

// ---- weighted sums over windows ----
//
// An element's weight is the product of its row's and its column's, and the sum is scaled: so sums
// of whole numbers are exact in averages.

__host__ __device__ inline float weight_of(const AverageAxis&, std::uint32_t, std::uint32_t) {
  return 1;
}
__host__ __device__ inline float weight_of(const BilinearAxis& axis, std::uint32_t i,
                                           std::uint32_t at) {
  return axis.weight(i, at);
}
__host__ __device__ inline float scale_of(const WindowGeometry<AverageAxis>& g, std::uint32_t i,
                                          std::uint32_t j) {
  return 1.0F / static_cast<float>(g.rows.counted(i) * g.columns.counted(j));
}
__host__ __device__ inline float scale_of(const WindowGeometry<BilinearAxis>&, std::uint32_t,
                                          std::uint32_t) {
  return 1;
}

template <typename T, typename Axis>
struct WindowSumForward {
  WindowGeometry<Axis> g;
  PoolWalk walk;  // of the output
  const T* x;
  T* y;
  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const T* const map = x + at.n * g.input.n + at.piece * g.input.c;
    float sum = 0;
    for (std::uint32_t row = g.rows.begin(at.h); row < g.rows.end(at.h); ++row) {
      for (std::uint32_t column = g.columns.begin(at.w); column < g.columns.end(at.w); ++column) {
        sum += to_float(map[row * g.input.h + column * g.input.w]) *
               (weight_of(g.rows, at.h, row) * weight_of(g.columns, at.w, column));
      }
    }
    y[index] = from_float<T>(sum * scale_of(g, at.h, at.w));
  }
};

template <typename T, typename Axis>
struct WindowSumBackward {
  WindowGeometry<Axis> g;
  PoolWalk walk;  // of the input
  const T* dy;
  T* dx;
  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const T* const map = dy + at.n * g.output.n + at.piece * g.output.c;
    float sum = 0;
    for (std::uint32_t i = g.rows.first_over(at.h); i < g.rows.end_over(at.h); ++i) {
      for (std::uint32_t j = g.columns.first_over(at.w); j < g.columns.end_over(at.w); ++j) {
        sum += to_float(map[i * g.output.h + j * g.output.w]) *
               (weight_of(g.rows, i, at.h) * weight_of(g.columns, j, at.w)) * scale_of(g, i, j);
      }
    }
    dx[index] = from_float<T>(sum);
  }
};

// ---- launches ----

// Calls with(Winner(), count) for the type that can count a window's elements and the number of
// channels of a thread, which these addresses of maps and winners decide.
template <typename T, typename With, typename... Pointers>
cudaError_t with_winner_and_count(const PoolGeometry& g, const With& with,
                                  const Pointers*... addresses) {
  const auto with_winner = [&](auto winner) {
    if (g.channels_last && g.channels % kVectorOf<T> == 0 && are_vector_aligned(addresses...)) {
      return with(winner, std::integral_constant<std::uint32_t, kVectorOf<T>>());
    }
    return with(winner, std::integral_constant<std::uint32_t, 1>());
  };
  const std::uint32_t bytes = winner_bytes(g.window.kernel_h, g.window.kernel_w);
  if (bytes == 1) return with_winner(std::uint8_t());
  if (bytes == 2) return with_winner(std::uint16_t());
  return cudaErrorInvalidValue;
}

// Whether the windows are tiles, and a thread takes a vector of channels.
bool has_tiles(const PoolGeometry& g, std::uint32_t count) {
  return count > 1 && g.window.is_tiling(kPoolTile);
}

}  // namespace

std::uint32_t winner_bytes(std::uint32_t kernel_h, std::uint32_t kernel_w) {
  const std::uint64_t elements = static_cast<std::uint64_t>(kernel_h) * kernel_w;
  if (elements <= kNoGradient<std::uint8_t>) return 1;
  return elements <= kNoGradient<std::uint16_t> ? 2 : 0;
}

cudaError_t pool_forward(const PoolGeometry& g, const void* x, void* y, void* winners,
                         cudaStream_t stream) {
  return with_element_type(g.type, [&]<typename T>(T) {
    const auto run = [&]<typename Winner>(Winner, auto count) {
      constexpr std::uint32_t kCount = decltype(count)::value;
      const auto launch = [&](auto tiles) {
        return for_each(g.output_count() / kCount, stream,
                        PoolForward<T, Winner, kCount, decltype(tiles)::value>{
                            g, walk_over(g, g.out_h, g.out_w, kCount), static_cast<const T*>(x),
                            static_cast<T*>(y), static_cast<Winner*>(winners)});
      };
      return has_tiles(g, kCount) ? launch(std::true_type()) : launch(std::false_type());
    };
    return with_winner_and_count<T>(g, run, x, y, winners);
  });
}

cudaError_t pool_backward(const PoolGeometry& g, const void* dy, const void* winners, void* dx,
                          cudaStream_t stream) {
  return with_element_type(g.type, [&]<typename T>(T) {
    const T* const from = static_cast<const T*>(dy);
    T* const to = static_cast<T*>(dx);
    const auto run = [&]<typename Winner>(Winner, auto count) {
      constexpr std::uint32_t kCount = decltype(count)::value;
      if (has_tiles(g, kCount)) {
        const std::uint32_t h = ceil_div(g.in_h, kPoolTile), w = ceil_div(g.in_w, kPoolTile);
        return for_each(g.batch * h * w * (g.channels / kCount), stream,
                        PoolBackwardTiles<T>{g, walk_over(g, h, w, kCount), from,
                                             static_cast<const std::uint8_t*>(winners), to});
      }
      return for_each(
          g.input_count() / kCount, stream,
          PoolBackward<T, Winner, kCount>{g, walk_over(g, g.in_h, g.in_w, kCount),
                                          Divisor(g.window.stride_h), Divisor(g.window.stride_w),
                                          from, static_cast<const Winner*>(winners), to});
    };
    return with_winner_and_count<T>(g, run, dx, dy, winners);
  });
}

template <typename Axis>
cudaError_t window_sum_forward(const WindowGeometry<Axis>& g, const void* x, void* y,
                               cudaStream_t stream) {
  return with_element_type(g.type, [&]<typename T>(T) {
    return for_each(g.batch * g.channels * g.rows.outputs * g.columns.outputs, stream,
                    WindowSumForward<T, Axis>{g, walk_over(g, g.rows.outputs, g.columns.outputs),
                                              static_cast<const T*>(x), static_cast<T*>(y)});
  });
}

template <typename Axis>
cudaError_t window_sum_backward(const WindowGeometry<Axis>& g, const void* dy, void* dx,
                                cudaStream_t stream) {
  return with_element_type(g.type, [&]<typename T>(T) {
    return for_each(g.batch * g.channels * g.rows.extent * g.columns.extent, stream,
                    WindowSumBackward<T, Axis>{g, walk_over(g, g.rows.extent, g.columns.extent),
                                               static_cast<const T*>(dy), static_cast<T*>(dx)});
  });
}

template cudaError_t window_sum_forward(const WindowGeometry<AverageAxis>&, const void*, void*,
                                        cudaStream_t);
template cudaError_t window_sum_forward(const WindowGeometry<BilinearAxis>&, const void*, void*,
                                        cudaStream_t);
template cudaError_t window_sum_backward(const WindowGeometry<AverageAxis>&, const void*, void*,
                                         cudaStream_t);
template cudaError_t window_sum_backward(const WindowGeometry<BilinearAxis>&, const void*, void*,
                                         cudaStream_t);

}  // namespace ddpbench::ops::cuda
