// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling: one thread for each output pixel forward, for each input pixel backward, or for each
// window of 2 x 2 side by side. It takes kCount neighbouring channels: a 16-byte vector of
// channels-last maps, so that a warp reads and writes whole lines and a pixel's position is
// computed once for all of them, or one channel of any map.
#include "kernels/ops/cuda/kernels/pool_kernels.h"

#include <algorithm>
#include <type_traits>

#include "kernels/ops/cuda/kernels/column_sums.h"
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

// Finds the channels and the pixel of the i-th piece of a map of `height` x `width`, in the order
// of memory.
struct PoolWalk {
  PoolWalk(const PoolGeometry& g, std::uint32_t count, std::uint32_t height, std::uint32_t width)
      : channels_last(g.channels_last), pieces(g.channels / count), columns(width), rows(height) {}

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
  Divisor pieces, columns, rows;
};

// The largest element of a window and its index, for each channel. The first of equal elements
// stays; NaN is larger than all.
template <typename Winner, std::uint32_t kCount>
struct WindowMaximum {
  float best[kCount];
  std::uint32_t winner[kCount];

  __host__ __device__ void take(const float (&value)[kCount], std::uint32_t element, bool first) {
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      if (first || exceeds(value[k], best[k])) {
        best[k] = value[k];
        winner[k] = element;
      }
    }
  }
  __host__ __device__ void rectify() {
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      if (best[k] <= 0) winner[k] = kNoGradient<Winner>;
      best[k] = relu(best[k]);
    }
  }
};

template <typename T, typename Winner, std::uint32_t kCount>
struct PoolForward {
  PoolGeometry g;
  PoolWalk walk;  // of the output
  const T* x;
  T* y;
  Winner* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const T* const image = x + at.n * g.input.n + at.piece * kCount * g.input.c;
    WindowMaximum<Winner, kCount> maximum{};  // every window has an element
    bool first = true;
    for (std::uint32_t p = 0; p < g.window.kernel_h; ++p) {
      // Above the image the difference wraps around to a row far below it.
      const std::uint32_t row = at.h * g.window.stride_h + p - g.window.pad_h;
      if (row >= g.in_h) continue;
      for (std::uint32_t q = 0; q < g.window.kernel_w; ++q) {
        const std::uint32_t column = at.w * g.window.stride_w + q - g.window.pad_w;
        if (column >= g.in_w) continue;
        float value[kCount];
        load(image + row * g.input.h + column * g.input.w, value);
        maximum.take(value, p * g.window.kernel_w + q, first);
        first = false;
      }
    }
    if (g.relu) maximum.rectify();
    store(y + index * kCount, maximum.best);
    write_winners(winners + index * kCount, maximum.winner);
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

// ---- windows of 2 x 2 that lie side by side, over channels-last maps of whole vectors ----
//
// One thread takes a window of a vector of channels, both ways. No pixel is in two windows. So
// backward reads a window's gradient and winners once and writes its four pixels. Forward's four
// reads are in flight before the first comparison.

constexpr std::uint32_t kPoolTile = 2;  // pixels a side

// Whether the windows are such tiles.
bool has_tiles(const PoolGeometry& g) { return g.window.is_tiling(kPoolTile); }

template <typename T>
struct PoolForwardTiles {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  PoolWalk walk;  // of the output
  const T* x;
  const float* bias;  // null: none
  T* y;
  std::uint8_t* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    const T* const window = x + at.n * g.input.n + at.h * kPoolTile * g.input.h +
                            at.w * kPoolTile * g.input.w + at.piece * kCount;
    float value[kPoolTile * kPoolTile][kCount];
    DDPBENCH_UNROLL
    for (std::uint32_t element = 0; element < kPoolTile * kPoolTile; ++element) {
      load(window + element / kPoolTile * g.input.h + element % kPoolTile * g.input.w,
           value[element]);
    }
    float added[kCount] = {};
    if (bias != nullptr) load(bias + at.piece * kCount, added);
    WindowMaximum<std::uint8_t, kCount> maximum;
    DDPBENCH_UNROLL
    for (std::uint32_t element = 0; element < kPoolTile * kPoolTile; ++element) {
      maximum.take(value[element], element, element == 0);
    }
    if (bias != nullptr) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) maximum.best[k] += added[k];
    }
    if (g.relu) maximum.rectify();
    store(y + index * kCount, maximum.best);
    write_winners(winners + index * kCount, maximum.winner);
  }
};

// Where the number of rows or columns is odd, the last one is in no window. Its tiles have no
// gradient, and their pixels are set to zero.
template <typename T>
struct PoolBackwardTiles {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  PoolWalk walk;  // of the tiles, cut ones included
  const T* dy;
  const std::uint8_t* winners;
  T* dx;

  struct Gradient {
    float value[kCount] = {};
    std::uint32_t winner[kCount] = {};
  };

  __host__ __device__ static std::uint32_t tiles(std::uint32_t pixels) {
    return ceil_div(pixels, kPoolTile);
  }

  __host__ __device__ void operator()(std::uint32_t index) const {
    const PoolWalk::Place at = walk.place(index);
    write(at, read(at));
  }

  __host__ __device__ Gradient read(const PoolWalk::Place& at) const {
    Gradient gradient;
    if (at.h >= g.out_h || at.w >= g.out_w) return gradient;
    const std::uint32_t from =
        at.n * g.output.n + at.h * g.output.h + at.w * g.output.w + at.piece * kCount;
    read_winners(winners + from, gradient.winner);
    load(dy + from, gradient.value);
    return gradient;
  }

  __host__ __device__ void write(const PoolWalk::Place& at, const Gradient& gradient) const {
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
        passed[k] = gradient.winner[k] == element ? gradient.value[k] : 0.0F;
      }
      store(tile + row * g.input.h + column * g.input.w, passed);
    }
  }
};

// The same with the gradient of a bias: the sums, over all windows, of what the winners pass. Each
// block writes the sums of its windows, and add_up_rows (column_sums.h) adds those up.
template <typename T>
struct PoolBackwardTilesWithBias {
  static constexpr std::uint32_t kCount = kVectorOf<T>;
  static constexpr std::uint32_t kThreads = 512;
  static constexpr int kBlocksAtOnce = 2, kPhases = 2;
  // The most blocks that are launched for a multiprocessor: what fits at once in fp32 (32 registers
  // at compute capability 9.0), twice that in bf16.
  static constexpr std::uint32_t kBlocksEach = 4;
  struct Shared {
    float sums[kThreads][kCount];
  };

  PoolBackwardTiles<T> tiles;
  std::uint32_t count;    // of tiles, in vectors of channels
  std::uint32_t threads;  // that take tiles: whole pixels, so each keeps its channels
  float* sums;            // [blocks, channels]
  std::uint32_t blocks;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    if (phase == 0) {
      if (thread < threads) take_tiles(shared.sums[thread], block * threads + thread);
      return;
    }
    const std::uint32_t channels = tiles.g.channels, vectors = channels / kCount;
    for (std::uint32_t channel = thread; channel < channels; channel += kThreads) {
      float sum = 0;
      for (std::uint32_t from = channel / kCount; from < threads; from += vectors) {
        sum += shared.sums[from][channel % kCount];
      }
      sums[block * channels + channel] = sum;
    }
  }

  __host__ __device__ void take_tiles(float (&to)[kCount], std::uint32_t first) const {
    float sum[kCount] = {};
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t index = first; index < count; index += blocks * threads) {
      const PoolWalk::Place at = tiles.walk.place(index);
      const auto gradient = tiles.read(at);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kCount; ++k) {
        const bool passes = gradient.winner[k] != kNoGradient<std::uint8_t>;
        sum[k] += passes ? gradient.value[k] : 0.0F;
      }
      tiles.write(at, gradient);
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) to[k] = sum[k];
  }
};

// ---- launches ----

// Whether these addresses of maps and winners allow 16-byte accesses.
template <typename T, typename... Pointers>
bool may_use_vectors(const PoolGeometry& g, const Pointers*... addresses) {
  return g.channels_last && g.channels % kVectorOf<T> == 0 && are_vector_aligned(addresses...);
}

// Calls with(Winner(), count) for the type that can count a window's elements and the number of
// channels of a thread.
template <typename T, typename With>
cudaError_t with_winner_and_count(const PoolGeometry& g, bool vectors, const With& with) {
  const auto with_winner = [&](auto winner) {
    if (vectors) return with(winner, std::integral_constant<std::uint32_t, kVectorOf<T>>());
    return with(winner, std::integral_constant<std::uint32_t, 1>());
  };
  const std::uint32_t bytes = winner_bytes(g.window.kernel_h, g.window.kernel_w);
  if (bytes == 1) return with_winner(std::uint8_t());
  if (bytes == 2) return with_winner(std::uint16_t());
  return cudaErrorInvalidValue;
}

template <typename T>
cudaError_t forward_tiles(const PoolGeometry& g, const PoolForwardCall& call, cudaStream_t stream) {
  const PoolWalk walk(g, kVectorOf<T>, g.out_h, g.out_w);
  return for_each(
      g.output_count() / kVectorOf<T>, stream,
      PoolForwardTiles<T>{g, walk, static_cast<const T*>(call.x), call.bias,
                          static_cast<T*>(call.y), static_cast<std::uint8_t*>(call.winners)});
}

template <typename T, typename Winner, std::uint32_t kCount>
cudaError_t forward_windows(const PoolGeometry& g, const PoolForwardCall& call,
                            cudaStream_t stream) {
  const PoolWalk walk(g, kCount, g.out_h, g.out_w);
  return for_each(
      g.output_count() / kCount, stream,
      PoolForward<T, Winner, kCount>{g, walk, static_cast<const T*>(call.x),
                                     static_cast<T*>(call.y), static_cast<Winner*>(call.winners)});
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
  const PoolWalk walk(g, kVectorOf<T>, Tiles::tiles(g.in_h), Tiles::tiles(g.in_w));
  const Tiles tiles{g, walk, static_cast<const T*>(call.dy),
                    static_cast<const std::uint8_t*>(call.winners), static_cast<T*>(call.dx)};
  if (call.bias_gradient != nullptr) return backward_tiles_with_bias(tiles, call, stream);
  return for_each(tile_count<T>(g), stream, tiles);
}

template <typename T, typename Winner, std::uint32_t kCount>
cudaError_t backward_windows(const PoolGeometry& g, const PoolBackwardCall& call,
                             cudaStream_t stream) {
  const PoolWalk walk(g, kCount, g.in_h, g.in_w);
  return for_each(g.input_count() / kCount, stream,
                  PoolBackward<T, Winner, kCount>{
                      g, walk, Divisor(g.window.stride_h), Divisor(g.window.stride_w),
                      static_cast<const T*>(call.dy), static_cast<const Winner*>(call.winners),
                      static_cast<T*>(call.dx)});
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
    const bool vectors = may_use_vectors<T>(geometry, call.x, call.y, call.winners);
    return with_winner_and_count<T>(geometry, vectors, [&](auto winner, auto count) {
      return forward_windows<T, decltype(winner), count.value>(geometry, call, stream);
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
    const bool vectors = may_use_vectors<T>(geometry, call.dx, call.dy, call.winners);
    return with_winner_and_count<T>(geometry, vectors, [&](auto winner, auto count) {
      return backward_windows<T, decltype(winner), count.value>(geometry, call, stream);
    });
  });
}

}  // namespace ddpbench::ops::cuda
