// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Max-pooling over channels-last maps. A thread takes one 16-byte vector of neighbouring channels:
// a warp reads and writes whole lines, and a pixel's position is computed once for all of them.
#pragma once

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/pool_geometry.h"
#include "kernels/ops/cuda/kernels/vector.cuh"

namespace ddpbench::ops::cuda {

// The winner of a window whose maximum the fused ReLU cut off. A window has fewer elements.
template <typename Winner>
inline constexpr Winner kNoGradient = static_cast<Winner>(~Winner{0});

// Winners of a vector of channels, of 1 or 2 bytes each, packed into words.
template <typename Winner, std::uint32_t kCount>
struct PackedWinners {
  static constexpr std::uint32_t kBits = 8 * sizeof(Winner), kInWord = 32 / kBits;
  static constexpr std::uint32_t kWords = kCount / kInWord;

  __host__ __device__ static void write(Winner* to, const std::uint32_t (&winners)[kCount]) {
    Words<kWords> words{};
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      const std::uint32_t bits = winners[k] & kNoGradient<Winner>;
      words.word[k / kInWord] |= bits << (k % kInWord * kBits);
    }
    write_words(to, words);
  }
  __host__ __device__ static void read(const Winner* from, std::uint32_t (&winners)[kCount]) {
    const Words<kWords> words = read_words<kWords>(from);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      winners[k] = words.word[k / kInWord] >> (k % kInWord * kBits) & kNoGradient<Winner>;
    }
  }
};

// Finds the vector and the pixel of the i-th vector of a map.
struct VectorWalk {
  VectorWalk(std::uint32_t channels, std::uint32_t of_vector, std::uint32_t height,
             std::uint32_t width)
      : vectors(channels / of_vector), columns(width), rows(height) {}

  struct Place {
    std::uint32_t n, h, w, vector;
  };
  __host__ __device__ Place place(std::uint32_t i) const {
    Place at{};
    at.vector = vectors.split(i);
    at.w = columns.split(i);
    at.h = rows.split(i);
    at.n = i;
    return at;
  }

  Divisor vectors, columns, rows;
};

// The largest element of a window and its index, for each channel of a vector. The first of equal
// elements stays; NaN is larger than all.
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
  __host__ __device__ void add(const float (&bias)[kCount]) {
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) best[k] += bias[k];
  }
  __host__ __device__ void rectify() {
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) {
      if (best[k] <= 0) winner[k] = kNoGradient<Winner>;
      best[k] = relu(best[k]);
    }
  }
};

template <typename T, typename Winner>
struct PoolForwardVectors {
  static constexpr std::uint32_t kCount = kVectorOf<T>;
  using Maximum = WindowMaximum<Winner, kCount>;

  PoolGeometry g;
  VectorWalk walk;
  const T* x;
  T* y;
  Winner* winners;

  __host__ __device__ void operator()(std::uint32_t index) const {
    const VectorWalk::Place at = walk.place(index);
    const std::uint32_t channel = at.vector * kCount;
    Maximum maximum{};  // every window has an element
    bool first = true;
    for (std::uint32_t p = 0; p < g.window.kernel_h; ++p) {
      // Above the image the difference wraps around to a row far below it.
      const std::uint32_t row = at.h * g.window.stride_h + p - g.window.pad_h;
      if (row >= g.in_h) continue;
      for (std::uint32_t q = 0; q < g.window.kernel_w; ++q) {
        const std::uint32_t column = at.w * g.window.stride_w + q - g.window.pad_w;
        if (column >= g.in_w) continue;
        float value[kCount];
        load(x + at.n * g.input.n + row * g.input.h + column * g.input.w + channel, value);
        maximum.take(value, p * g.window.kernel_w + q, first);
        first = false;
      }
    }
    if (g.relu) maximum.rectify();
    store(y + index * kCount, maximum.best);
    PackedWinners<Winner, kCount>::write(winners + index * kCount, maximum.winner);
  }
};

template <typename T, typename Winner>
struct PoolBackwardVectors {
  static constexpr std::uint32_t kCount = kVectorOf<T>;

  PoolGeometry g;
  VectorWalk walk;
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
    const VectorWalk::Place at = walk.place(index);
    const std::uint32_t row = at.h + g.window.pad_h, column = at.w + g.window.pad_w;
    const std::uint32_t end_i = end_window(row, stride_h, g.out_h);
    const std::uint32_t end_j = end_window(column, stride_w, g.out_w);
    const std::uint32_t first_j = first_window(column, g.window.kernel_w, stride_w);
    float sum[kCount] = {};
    for (std::uint32_t i = first_window(row, g.window.kernel_h, stride_h); i < end_i; ++i) {
      for (std::uint32_t j = first_j; j < end_j; ++j) {
        const std::uint32_t mine =
            (row - i * g.window.stride_h) * g.window.kernel_w + column - j * g.window.stride_w;
        add_window(at, i, j, mine, sum);
      }
    }
    store(dx + index * kCount, sum);
  }

  __host__ __device__ void add_window(const VectorWalk::Place& at, std::uint32_t i, std::uint32_t j,
                                      std::uint32_t mine, float (&sum)[kCount]) const {
    const std::uint32_t from =
        at.n * g.output.n + i * g.output.h + j * g.output.w + at.vector * kCount;
    std::uint32_t winner[kCount];
    PackedWinners<Winner, kCount>::read(winners + from, winner);
    float gradient[kCount];
    load(dy + from, gradient);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kCount; ++k) sum[k] += winner[k] == mine ? gradient[k] : 0.0F;
  }
};

}  // namespace ddpbench::ops::cuda
