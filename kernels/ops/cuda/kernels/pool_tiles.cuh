// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling by windows of 2 x 2 that lie side by side, over channels-last maps. One thread takes
// a window of a vector of channels, forward and backward. No pixel is in two windows. So backward
// reads a window's gradient and winners once and writes its four pixels. Forward's four reads are
// in flight before the first comparison.
#pragma once

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/pool_vectors.cuh"

namespace ddpbench::ops::cuda {

inline constexpr std::uint32_t kPoolTile = 2;  // pixels a side

// Whether the windows are such tiles.
inline bool has_tiles(const PoolGeometry& g) { return g.window.is_tiling(kPoolTile); }

// Both bodies: channels-last maps of whole vectors of channels, and one-byte winners.
template <typename T>
struct PoolForwardTiles {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  VectorWalk walk;  // of the output
  const T* x;
  const float* bias;  // null: none
  T* y;
  std::uint8_t* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const VectorWalk::Place at = walk.place(index);
    const T* const window = x + at.n * g.input.n + at.h * kPoolTile * g.input.h +
                            at.w * kPoolTile * g.input.w + at.vector * kCount;
    float value[kPoolTile * kPoolTile][kCount];
    DDPBENCH_UNROLL
    for (std::uint32_t element = 0; element < kPoolTile * kPoolTile; ++element) {
      load(window + element / kPoolTile * g.input.h + element % kPoolTile * g.input.w,
           value[element]);
    }
    float added[kCount] = {};
    if (bias != nullptr) load(bias + at.vector * kCount, added);
    WindowMaximum<std::uint8_t, kCount> maximum;
    DDPBENCH_UNROLL
    for (std::uint32_t element = 0; element < kPoolTile * kPoolTile; ++element) {
      maximum.take(value[element], element, element == 0);
    }
    if (bias != nullptr) maximum.add(added);
    if (g.relu) maximum.rectify();
    store(y + index * kCount, maximum.best);
    PackedWinners<std::uint8_t, kCount>::write(winners + index * kCount, maximum.winner);
  }
};

// Where the number of rows or columns is odd, the last one is in no window. Its tiles have no
// gradient, and their pixels are set to zero.
template <typename T>
struct PoolBackwardTiles {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  VectorWalk walk;  // of the tiles, cut ones included
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
    const VectorWalk::Place at = walk.place(index);
    write(at, read(at));
  }

  __host__ __device__ Gradient read(const VectorWalk::Place& at) const {
    Gradient gradient;
    if (at.h >= g.out_h || at.w >= g.out_w) return gradient;
    const std::uint32_t from =
        at.n * g.output.n + at.h * g.output.h + at.w * g.output.w + at.vector * kCount;
    PackedWinners<std::uint8_t, kCount>::read(winners + from, gradient.winner);
    load(dy + from, gradient.value);
    return gradient;
  }

  __host__ __device__ void write(const VectorWalk::Place& at, const Gradient& gradient) const {
    T* const tile = dx + at.n * g.input.n + at.h * kPoolTile * g.input.h +
                    at.w * kPoolTile * g.input.w + at.vector * kCount;
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
      const VectorWalk::Place at = tiles.walk.place(index);
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

}  // namespace ddpbench::ops::cuda
