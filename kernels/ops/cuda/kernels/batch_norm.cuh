// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of batch norm's kernels (batch_norm.cu): how a map is divided among blocks and threads,
// and what a thread reads.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/ops/cuda/kernels/batch_norm.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {

inline constexpr std::uint32_t kNormThreads = 256;
// The pixels that a thread has at most: so many that the sums of pieces are few beside what they
// sum.
inline constexpr std::uint32_t kThreadPixels = 16;

// Of a block: its sample, first channel and pixels, and which of all samples' pieces it is.
struct Piece {
  std::uint32_t index, sample, first_channel, begin, end;
};
// Of a thread: every so many pixels of some channels. `at`: the first one's place in the map.
struct Line {
  std::uint32_t channel, at, count;
};

// What the threads of a block have summed.
template <std::uint32_t kWidth>
struct PieceSums {
  float first[kNormThreads * kWidth], second[kNormThreads * kWidth];
};

// The threads side by side over the channels of a pixel, as a power of two.
inline std::uint32_t norm_lane_bits(const NormShape& shape, std::uint32_t width) {
  std::uint32_t bits = 0;
  while (shape.channels_last && bits < 5 && (width << bits) < shape.channels) ++bits;
  return bits;
}
// The pieces of a channel in a sample.
inline std::uint32_t pieces_of_sample(const NormShape& shape, std::uint32_t width) {
  const std::uint32_t parts = kNormThreads >> norm_lane_bits(shape, width);
  return ceil_div(shape.pixels, kThreadPixels * parts);
}
// In all samples, at most.
inline std::uint32_t piece_count(const NormShape& shape) {
  std::uint32_t most = 0;
  for (const std::uint32_t width : {1U, kVectorOf<float>, kVectorOf<Bf16>})
    most = std::max(most, pieces_of_sample(shape, width));
  return shape.samples * most;
}

template <std::uint32_t kRows>
using Rows = std::integral_constant<std::uint32_t, kRows>;

template <typename T, std::uint32_t kWidth>
struct NormPieces {
  static constexpr std::uint32_t kThreads = kNormThreads;
  // The pixels of a thread whose reads are in flight together.
  static constexpr std::uint32_t kReads = kWidth > 4 ? 2 : 4;

  std::uint32_t channels, pixels, pixels_of_piece, lane_bits;
  std::uint32_t step, of_channel;  // elements between a thread's pixels, and between channels
  std::uint32_t of_pixel;
  Divisor tiles, of_sample;  // pieces side by side over channels; of a channel in a sample

  void divide(const NormShape& shape) {
    channels = shape.channels;
    pixels = shape.pixels;
    lane_bits = norm_lane_bits(shape, kWidth);
    of_pixel = shape.channels_last ? channels : 1;
    of_channel = shape.channels_last ? 1 : pixels;
    step = (kThreads >> lane_bits) * of_pixel;
    const std::uint32_t pieces = pieces_of_sample(shape, kWidth);
    pixels_of_piece = ceil_div(pixels, pieces);
    tiles = Divisor(ceil_div(channels, kWidth << lane_bits));
    of_sample = Divisor(pieces);
  }
  std::uint32_t pieces(std::uint32_t samples) const { return samples * of_sample.divisor(); }
  std::uint32_t blocks(std::uint32_t samples) const { return pieces(samples) * tiles.divisor(); }

  __host__ __device__ Piece piece_of(std::uint32_t block) const {
    Piece piece;
    piece.first_channel = (tiles.split(block) * kWidth) << lane_bits;
    piece.index = block;
    piece.begin = of_sample.split(block) * pixels_of_piece;
    piece.sample = block;
    const std::uint32_t end = piece.begin + pixels_of_piece;
    piece.end = end < pixels ? end : pixels;
    return piece;
  }

  __host__ __device__ Line line_of(const Piece& piece, std::uint32_t thread) const {
    const std::uint32_t lane = thread & ((1U << lane_bits) - 1);
    Line line;
    line.channel = piece.first_channel + lane * kWidth;
    line.count = line.channel < channels ? pixels_of(piece, thread >> lane_bits) : 0;
    line.at = piece.sample * channels * pixels + line.channel * of_channel +
              (piece.begin + (thread >> lane_bits)) * of_pixel;
    return line;
  }

  // Calls add(place in the shared sums, pixels, first, second) for all threads of each channel of
  // the piece, and writes the sums.
  template <typename Add>
  __host__ __device__ void add_up(const Piece& piece, std::uint32_t thread, double* sums,
                                  const Add& add) const {
    const std::uint32_t columns = kWidth << lane_bits;
    double* const to = sums + static_cast<std::size_t>(2) * piece.index * channels;
    for (std::uint32_t i = thread; i < columns && piece.first_channel + i < channels;
         i += kThreads) {
      double first = 0, second = 0;
      for (std::uint32_t part = 0; part < kThreads >> lane_bits; ++part) {
        const std::uint32_t count = pixels_of(piece, part);
        if (count == 0) break;  // nor have those behind it any
        add(part * columns + i, count, first, second);
      }
      to[piece.first_channel + i] = first;
      to[channels + piece.first_channel + i] = second;
    }
  }

  // Calls batch(Rows<n>(), place of the first) for the pixels of a line, n at a time.
  template <typename Batch>
  __host__ __device__ void for_batches(const Line& line, const Batch& batch) const {
    std::uint32_t at = line.at;
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = 0; i < line.count / kReads; ++i, at += kReads * step)
      batch(Rows<kReads>(), at);
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = 0; i < line.count % kReads; ++i, at += step) batch(Rows<1>(), at);
  }

  template <std::uint32_t kRows>
  __host__ __device__ void read_rows(const T* map, std::uint32_t at,
                                     float (&values)[kRows][kWidth]) const {
    DDPBENCH_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) load(map + at + r * step, values[r]);
  }

 private:
  // The pixels of the threads in row `part` of the block.
  __host__ __device__ std::uint32_t pixels_of(const Piece& piece, std::uint32_t part) const {
    const std::uint32_t begin = piece.begin + part;
    return begin < piece.end ? ceil_div(piece.end - begin, kThreads >> lane_bits) : 0;
  }
};

// Values of neighbouring channels. A thread has few pixels, so that one read a value would cost as
// much as those.
template <std::uint32_t kWidth>
__host__ __device__ void read_channels(const float* values, std::uint32_t channel,
                                       float (&to)[kWidth]) {
  constexpr std::uint32_t kVector = kVectorOf<float>;
  const float* const from = values + channel;
  if constexpr (kWidth % kVector == 0) {
    if (reinterpret_cast<std::uintptr_t>(from) % kVectorBytes == 0) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kWidth; k += kVector) {
        float part[kVector];
        load(from + k, part);
        DDPBENCH_UNROLL
        for (std::uint32_t j = 0; j < kVector; ++j) to[k + j] = part[j];
      }
      return;
    }
  }
  DDPBENCH_UNROLL
  for (std::uint32_t k = 0; k < kWidth; ++k) to[k] = from[k];
}

// A body that sums two numbers a channel. First each thread sums its line in fp32
// (Body::sum_thread), then what the threads of a channel have is added in double (Body::add).
template <typename Body, typename T, std::uint32_t kWidth>
struct SummedPieces : NormPieces<T, kWidth> {
  static constexpr int kPhases = 2;

  double* sums;  // [pieces of all samples][2][channels]

  __host__ __device__ void operator()(int phase, PieceSums<kWidth>& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Body& body = static_cast<const Body&>(*this);
    const Piece piece = this->piece_of(block);
    if (phase == 0) {
      const Line line = this->line_of(piece, thread);
      if (line.count > 0) body.sum_thread(line, shared, thread);
    } else {
      this->add_up(piece, thread, sums,
                   [&](std::uint32_t at, std::uint32_t count, double& first, double& second) {
                     body.add(shared, at, count, first, second);
                   });
    }
  }
};

// What a thread multiplies and adds, of its channels.
template <std::uint32_t kWidth>
struct ChannelFactors {
  float mean[kWidth], scale[kWidth], bias[kWidth];

  __host__ __device__ ChannelFactors(const Affine& by, std::uint32_t channel) {
    read_channels(by.mean, channel, mean);
    float weight[kWidth];
    if (by.inv_std != nullptr) {
      read_channels(by.inv_std, channel, scale);
    } else {
      read_channels(by.variance, channel, scale);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kWidth; ++k) scale[k] = 1.0F / sqrtf(scale[k] + by.eps);
    }
    if (by.bias != nullptr) read_channels(by.bias, channel, bias);
    if (by.weight != nullptr) read_channels(by.weight, channel, weight);
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kWidth; ++k) {
      if (by.bias == nullptr) bias[k] = 0;
      if (by.weight != nullptr) scale[k] *= weight[k];
    }
  }
  __host__ __device__ float normalized(std::uint32_t k, float x) const {
    return fmaf(x - mean[k], scale[k], bias[k]);
  }
};

// x, and the gradient in front of ReLU and sum.
template <typename T, std::uint32_t kWidth>
struct GradientLines {
  const T *x, *gradient;
  const T* output;  // null: nothing to cut, or by x
  Affine by;
  bool from_x;

  template <std::uint32_t kRows>
  __host__ __device__ void read(const NormPieces<T, kWidth>& pieces,
                                const ChannelFactors<kWidth>& factors, std::uint32_t at,
                                float (&of_x)[kRows][kWidth], float (&g)[kRows][kWidth]) const {
    pieces.template read_rows<kRows>(x, at, of_x);
    pieces.template read_rows<kRows>(gradient, at, g);
    if (output == nullptr && !from_x) return;
    float y[kRows][kWidth];
    if (output != nullptr) pieces.template read_rows<kRows>(output, at, y);
    DDPBENCH_UNROLL
    for (std::uint32_t r = 0; r < kRows; ++r) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kWidth; ++k) {
        const float value = output != nullptr ? y[r][k] : factors.normalized(k, of_x[r][k]);
        g[r][k] = relu_gradient(value, g[r][k]);
      }
    }
  }
};

}  // namespace ddpbench::ops::cuda
