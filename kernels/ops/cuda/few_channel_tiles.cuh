// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the few-channel convolution's kernels share: which windows there are, and how threads go
// over tiles and channels. A tile is kPixels neighbouring outputs of a row; the lanes of a pixel's
// channels are neighbours, so what a warp reads or writes of the output are whole sectors.
#pragma once

#include <algorithm>

#include "kernels/ops/cuda/divide.cuh"
#include "kernels/ops/cuda/few_channels.h"
#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"
#include "kernels/ops/cuda/vector.cuh"

namespace ddpbench::ops::cuda::few_channels {

inline constexpr std::uint32_t kPixels = 4;     // outputs of a tile
inline constexpr std::uint32_t kMaxLanes = 32;  // threads of a pixel

// What is known when compiling: kernel extent, channels, horizontal stride.
template <std::uint32_t kExtent, std::uint32_t kInputs, std::uint32_t kStride>
struct Window {
  static constexpr std::uint32_t kKernel = kExtent, kChannels = kInputs, kStrideW = kStride;
  static constexpr std::uint32_t kTaps = kKernel * kKernel * kChannels;
  // As many output channels a thread as registers hold the weights of.
  static constexpr std::uint32_t kMostOutputs = kTaps < 16 ? 8 : 4;
  // Backward's sums of a block have to fit into 48 KiB of shared memory.
  static constexpr std::uint32_t kThreads = kTaps < 16 ? 128 : 64;
  // Pixels of an input row below a tile.
  static constexpr std::uint32_t kColumns = (kPixels - 1) * kStrideW + kKernel;
};

template <typename T, typename W>
inline constexpr std::uint32_t kOutputsOf = std::min(kVectorOf<T>, W::kMostOutputs);

// Blocks that a multiprocessor holds at once, where threads need up to `registers`; the launch
// bounds keep them there. Each of its quarters has 16,384 registers for whole warps, in units of 8
// a thread. Blocks of 2 warps are 4, whatever they need.
template <typename W>
constexpr int blocks_at_once(std::uint32_t registers) {
  return W::kThreads == 64 ? 4 : static_cast<int>(16384 / (32 * registers));
}

inline std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

// How the threads of all blocks go over tiles and channels.
struct Walk {
  std::uint32_t in_h, in_w, out_h, out_w, stride_h, pad_h, pad_w, out_channels;
  Divisor rows, row_tiles, channel_blocks;
  std::uint32_t tiles, lane_bits, slots, pixel_blocks;

  struct Place {
    std::uint32_t lane, slot, channel_block, pixel_block, channel;
  };
  __host__ __device__ Place place(std::uint32_t block, std::uint32_t thread,
                                  std::uint32_t outputs) const {
    Place at{};
    at.lane = thread & ((1U << lane_bits) - 1);
    at.slot = thread >> lane_bits;
    at.pixel_block = block;
    at.channel_block = channel_blocks.split(at.pixel_block);
    at.channel = ((at.channel_block << lane_bits) + at.lane) * outputs;
    return at;
  }

  struct Tile {
    std::uint32_t n, row, column;  // of the first output
  };
  __host__ __device__ Tile tile(std::uint32_t index) const {
    Tile at{};
    at.column = row_tiles.split(index) * kPixels;
    at.row = rows.split(index);
    at.n = index;
    return at;
  }
};

// As many blocks as the GPU holds at once: each begins with its weights, or ends with its sums.
template <typename T, typename W>
Walk plan_walk(const FewChannelShape& s, std::uint32_t blocks_of_multiprocessor) {
  Walk walk{};
  walk.in_h = s.in_h, walk.in_w = s.in_w, walk.out_h = s.out_h, walk.out_w = s.out_w;
  walk.stride_h = s.stride_h, walk.pad_h = s.pad_h, walk.pad_w = s.pad_w;
  walk.out_channels = s.out_channels;
  const std::uint32_t row_tiles = ceil_div(s.out_w, kPixels);
  walk.rows = Divisor(s.out_h);
  walk.row_tiles = Divisor(row_tiles);
  walk.tiles = s.batch * s.out_h * row_tiles;
  const std::uint32_t groups = ceil_div(s.out_channels, kOutputsOf<T, W>);
  while ((1U << walk.lane_bits) < std::min(groups, kMaxLanes)) ++walk.lane_bits;
  walk.slots = W::kThreads >> walk.lane_bits;
  const std::uint32_t channel_blocks = ceil_div(groups, 1U << walk.lane_bits);
  walk.channel_blocks = Divisor(channel_blocks);
  const std::uint32_t room =
      std::max(1U, s.multiprocessors * blocks_of_multiprocessor / channel_blocks);
  walk.pixel_blocks = std::min(ceil_div(walk.tiles, walk.slots), room);
  return walk;
}

// The pixels that a tile sees, as memory holds them; zeros outside of the image. All are read
// before one is used, so that they are on their way together.
template <typename T, typename W>
struct InputTile {
  T values[W::kKernel][W::kColumns * W::kChannels];

  __host__ __device__ void read(const Walk& walk, const T* x, const Walk::Tile& tile) {
    DDPBENCH_UNROLL
    for (std::uint32_t p = 0; p < W::kKernel; ++p) {
      read_row(walk, x, tile.n, tile.row * walk.stride_h + p - walk.pad_h,
               tile.column * W::kStrideW - walk.pad_w, values[p]);
    }
  }

  // `row` may wrap around above the image, and `first` to its left. The elements of a row have one
  // address and a distance each that is known when compiling: instructions for 64-bit addresses
  // would be as many as those that count. Where nothing is read, it may lie outside of the images.
  __host__ __device__ static void read_row(const Walk& walk, const T* x, std::uint32_t n,
                                           std::uint32_t row, std::uint32_t first,
                                           T (&to)[W::kColumns * W::kChannels]) {
    const std::uint32_t start = ((n * walk.in_h + row) * walk.in_w + first) * W::kChannels;
    const T* const from = x + static_cast<std::int32_t>(start);
    DDPBENCH_UNROLL
    for (std::uint32_t j = 0; j < W::kColumns; ++j) {
      const bool is_there = row < walk.in_h && first + j < walk.in_w;
      DDPBENCH_UNROLL
      for (std::uint32_t c = 0; c < W::kChannels; ++c) {
        to[j * W::kChannels + c] = is_there ? from[j * W::kChannels + c] : T{};
      }
    }
  }

  // Calls use(tap, pixel, input) for every tap of every pixel of the tile.
  template <typename Use>
  __host__ __device__ void for_each_tap(const Use& use) const {
    constexpr std::uint32_t kRowTaps = W::kKernel * W::kChannels;
    DDPBENCH_UNROLL
    for (std::uint32_t p = 0; p < W::kKernel; ++p) {
      DDPBENCH_UNROLL
      for (std::uint32_t t = 0; t < kRowTaps; ++t) {
        DDPBENCH_UNROLL
        for (std::uint32_t i = 0; i < kPixels; ++i) {
          use(p * kRowTaps + t, i, to_float(values[p][i * W::kStrideW * W::kChannels + t]));
        }
      }
    }
  }
};

// Calls with_window(Window()) for the shape's.
template <typename WithWindow>
cudaError_t with_window_type(const FewChannelShape& s, const WithWindow& with_window) {
  if (!has_few_channel_kernels(s)) return cudaErrorInvalidValue;
  if (s.kernel_h == 5) return with_window(Window<5, 1, 1>());
  if (s.channels == 3) return with_window(Window<3, 3, 1>());
  return s.stride_w == 2 ? with_window(Window<3, 1, 2>()) : with_window(Window<3, 1, 1>());
}

template <typename WithKernel>
cudaError_t with_kernel_types(const FewChannelShape& s, const WithKernel& with_kernel) {
  return with_element_type(s.type, [&](auto element) {
    return with_window_type(s, [&](auto window) { return with_kernel(element, window); });
  });
}

template <typename T, typename W>
bool may_use_vectors(const FewChannelShape& s, const void* a, const void* b) {
  return s.out_channels % kOutputsOf<T, W> == 0 && are_vector_aligned(a, b);
}

}  // namespace ddpbench::ops::cuda::few_channels
