// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the few-channel kernels share: their windows, and how threads go over tiles and channels. A
// tile is kPixels neighbouring outputs of a row. The lanes of a pixel's channels are neighbours, so
// a warp reads and writes whole sectors of the output.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/ops/cuda/kernels/divide.cuh"
#include "kernels/ops/cuda/kernels/few_channel_shape.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"
#include "kernels/ops/cuda/kernels/vector.cuh"

namespace ddpbench::ops::cuda::few_channels {

inline constexpr std::uint32_t kPixels = 4;     // of a row of a tile
inline constexpr std::uint32_t kMaxLanes = 32;  // threads of a pixel

// The compile-time constants: kernel extent, channels and horizontal stride; and the extent of the
// windows in which the convolution's pixels are pooled, 1 without pooling.
template <std::uint32_t kExtent, std::uint32_t kInputs, std::uint32_t kStride,
          std::uint32_t kPoolExtent>
struct Window {
  static constexpr std::uint32_t kKernel = kExtent, kChannels = kInputs, kStrideW = kStride;
  static constexpr std::uint32_t kTaps = kKernel * kKernel * kChannels;
  // The pixels that an output pools, and the outputs of a tile.
  static constexpr std::uint32_t kPool = kPoolExtent, kPooled = kPool * kPool;
  static constexpr std::uint32_t kTileOutputs = kPixels / kPool;
  // The output channels of a thread: as many as have their weights in registers.
  static constexpr std::uint32_t kMostOutputs = kTaps < 16 ? 8 : 4;
  // Backward's sums of a block must fit in 48 KiB of shared memory.
  static constexpr std::uint32_t kThreads = kTaps < 16 ? 128 : 64;
  // The rows and columns of the input that a tile reads. Pooled, the stride is 1.
  static constexpr std::uint32_t kRows = kPool - 1 + kKernel;
  static constexpr std::uint32_t kColumns = (kPixels - 1) * kStrideW + kKernel;
};

template <typename T, typename W>
inline constexpr std::uint32_t kOutputsOf = std::min(kVectorOf<T>, W::kMostOutputs);

// How many blocks a multiprocessor holds at once. `registers`: the most that a thread may use,
// which launch bounds enforce. Each quarter of the multiprocessor has 16,384 registers and gives
// them to whole warps, in units of 8 a thread. It always holds 4 blocks of 2 warps.
template <typename W>
constexpr int blocks_at_once(std::uint32_t registers) {
  return W::kThreads == 64 ? 4 : static_cast<int>(16384 / (32 * registers));
}

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
  template <typename W>
  __host__ __device__ Tile tile(std::uint32_t index) const {
    Tile at{};
    at.column = row_tiles.split(index) * W::kTileOutputs;
    at.row = rows.split(index);
    at.n = index;
    return at;
  }
  // The offset in the output of the first channel of the tile's first output.
  __host__ __device__ std::uint32_t output(const Tile& at) const {
    return ((at.n * out_h + at.row) * out_w + at.column) * out_channels;
  }
};

// Plans the blocks that the GPU holds at once: each begins by reading weights, or ends with sums.
template <typename T, typename W>
Walk plan_walk(const FewChannelShape& s, std::uint32_t blocks_of_multiprocessor) {
  Walk walk{};
  walk.in_h = s.in_h, walk.in_w = s.in_w, walk.out_h = s.out_h, walk.out_w = s.out_w;
  walk.stride_h = s.window.stride_h, walk.pad_h = s.window.pad_h, walk.pad_w = s.window.pad_w;
  walk.out_channels = s.out_channels;
  const std::uint32_t row_tiles = ceil_div(s.out_w, W::kTileOutputs);
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

// The pixels that a tile reads, in memory's format; zeros outside of the image. All reads are in
// flight before the first value is used.
template <typename T, typename W>
struct InputTile {
  T values[W::kRows][W::kColumns * W::kChannels];

  __host__ __device__ void read(const Walk& walk, const T* x, const Walk::Tile& tile) {
    DDPBENCH_UNROLL
    for (std::uint32_t p = 0; p < W::kRows; ++p) {
      read_row(walk, x, tile.n, tile.row * W::kPool * walk.stride_h + p - walk.pad_h,
               tile.column * W::kPool * W::kStrideW - walk.pad_w, values[p]);
    }
  }

  // `row` may wrap around above the image, and `first` to its left. A row's elements have one
  // address and compile-time distances: 64-bit address arithmetic would take as many instructions
  // as the rest. Where nothing is read, the address may lie outside of the images.
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

  // Calls use(tap, pixel, input) for every tap of every pixel below one of the tile's outputs.
  template <typename Use>
  __host__ __device__ void for_each_tap(std::uint32_t output, const Use& use) const {
    constexpr std::uint32_t kRowTaps = W::kKernel * W::kChannels;
    DDPBENCH_UNROLL
    for (std::uint32_t t = 0; t < W::kTaps; ++t) {
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < W::kPooled; ++i) {
        const std::uint32_t column = (output * W::kPool + i % W::kPool) * W::kStrideW;
        use(t, i,
            to_float(values[i / W::kPool + t / kRowTaps][column * W::kChannels + t % kRowTaps]));
      }
    }
  }
};

// Calls with_window(Window()) with the window type of the shape.
template <typename WithWindow>
cudaError_t with_window_type(const FewChannelShape& s, const WithWindow& with_window) {
  if (!has_few_channel_kernels(s)) return cudaErrorInvalidValue;
  const auto with_kernel = [&](auto pool) {
    constexpr std::uint32_t kPool = decltype(pool)::value;
    if (s.window.kernel_h == 5) return with_window(Window<5, 1, 1, kPool>());
    if (s.channels == 3) return with_window(Window<3, 3, 1, kPool>());
    return with_window(Window<3, 1, 1, kPool>());
  };
  if (s.pool == 2) return with_kernel(std::integral_constant<std::uint32_t, 2>());
  if (s.window.stride_w == 2) return with_window(Window<3, 1, 2, 1>());
  return with_kernel(std::integral_constant<std::uint32_t, 1>());
}

template <typename WithKernel>
cudaError_t with_kernel_types(const FewChannelShape& s, const WithKernel& with_kernel) {
  return with_element_type(s.type, [&](auto element) {
    return with_window_type(s, [&](auto window) { return with_kernel(element, window); });
  });
}

template <typename T, typename W, typename... Pointers>
bool may_use_vectors(const FewChannelShape& s, const Pointers*... maps) {
  return s.out_channels % kOutputsOf<T, W> == 0 && are_vector_aligned(maps...);
}

}  // namespace ddpbench::ops::cuda::few_channels
