// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A tile is kPixels neighbouring outputs of a row. A thread goes over tiles; in registers it keeps,
// forward, the weights of some neighbouring output channels, backward, their sums. The lanes of a
// pixel's channels are neighbours, so a warp reads and writes whole sectors of the output.
// Backward, a block adds up the sums of its threads, and a second launch those of the blocks.
#include "kernels/ops/cuda/kernels/few_channels.h"

#include <algorithm>

#include "kernels/ops/cuda/kernels/column_sums.h"
#include "kernels/ops/cuda/kernels/launch.cuh"
#include "kernels/ops/cuda/kernels/number.cuh"

namespace ddpbench::ops::cuda {
namespace few_channels {
namespace {

constexpr std::uint32_t kPixels = 4;     // of a row of a tile
constexpr std::uint32_t kMaxLanes = 32;  // threads of a pixel

// The compile-time constants: kernel extent, channels and horizontal stride.
template <std::uint32_t kExtent, std::uint32_t kInputs, std::uint32_t kStride>
struct Window {
  static constexpr std::uint32_t kKernel = kExtent, kChannels = kInputs, kStrideW = kStride;
  static constexpr std::uint32_t kTaps = kKernel * kKernel * kChannels;
  // The output channels of a thread: as many as have their weights in registers.
  static constexpr std::uint32_t kMostOutputs = kTaps < 16 ? 8 : 4;
  // Backward's sums of a block must fit in 48 KiB of shared memory.
  static constexpr std::uint32_t kThreads = kTaps < 16 ? 128 : 64;
  // The columns of the input that a tile reads.
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

  std::uint32_t blocks() const { return pixel_blocks * channel_blocks.divisor(); }

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
    at.column = row_tiles.split(index) * kPixels;
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

// The pixels that a tile reads, in memory's format; zeros outside of the image. All reads are in
// flight before the first value is used.
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

  // Calls use(tap, input) for every tap of an output.
  template <typename Use>
  __host__ __device__ void for_each_tap(std::uint32_t output, const Use& use) const {
    constexpr std::uint32_t kRowTaps = W::kKernel * W::kChannels;
    DDPBENCH_UNROLL
    for (std::uint32_t t = 0; t < W::kTaps; ++t) {
      use(t, to_float(values[t / kRowTaps][output * W::kStrideW * W::kChannels + t % kRowTaps]));
    }
  }
};

// Calls with_window(Window()) with the window type of the shape.
template <typename WithWindow>
cudaError_t with_window_type(const FewChannelShape& s, const WithWindow& with_window) {
  if (!has_few_channel_kernels(s)) return cudaErrorInvalidValue;
  if (s.window.stride_w == 2) return with_window(Window<3, 1, 2>());
  if (s.window.kernel_h == 5) return with_window(Window<5, 1, 1>());
  if (s.channels == 3) return with_window(Window<3, 3, 1>());
  return with_window(Window<3, 1, 1>());
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

template <typename T, typename W>
struct Forward {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr int kPhases = 1, kBlocksAtOnce = blocks_at_once<W>(kOutputs == 8 ? 168 : 96);
  struct Shared {};

  Walk walk;
  FewChannelForward args;
  bool vectors;

  __host__ __device__ void operator()(int, Shared&, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Walk::Place at = walk.place(block, thread, kOutputs);
    float weights[W::kTaps][kOutputs], start[kOutputs];
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      const std::uint32_t channel = at.channel + k;
      const bool is_there = channel < walk.out_channels;
      start[k] = is_there && args.bias != nullptr ? args.bias[channel] : 0.0F;
      DDPBENCH_UNROLL
      for (std::uint32_t t = 0; t < W::kTaps; ++t) {
        weights[t][k] = is_there ? args.w[channel * W::kTaps + t] : 0.0F;
      }
    }
    if (at.channel >= walk.out_channels) return;
    const std::uint32_t step = walk.pixel_blocks * walk.slots;
    for (std::uint32_t i = at.pixel_block * walk.slots + at.slot; i < walk.tiles; i += step) {
      run_tile(walk.tile<W>(i), at.channel, weights, start);
    }
  }

  __host__ __device__ void run_tile(const Walk::Tile& tile, std::uint32_t channel,
                                    const float (&weights)[W::kTaps][kOutputs],
                                    const float (&start)[kOutputs]) const {
    InputTile<T, W> tile_input;
    tile_input.read(walk, static_cast<const T*>(args.x), tile);
    const std::uint32_t first = walk.output(tile) + channel;
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < kPixels; ++o) {
      float sums[kOutputs];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[k] = start[k];
      tile_input.for_each_tap(o, [&](std::uint32_t tap, float input) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) sums[k] += input * weights[tap][k];
      });
      if (tile.column + o < walk.out_w) write(first + o * walk.out_channels, channel, sums);
    }
  }

  __host__ __device__ void write(std::uint32_t at, std::uint32_t channel,
                                 float (&sums)[kOutputs]) const {
    T* const y = static_cast<T*>(args.y) + at;
    if (args.relu) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[k] = relu(sums[k]);
    }
    if (vectors) {
      store(y, sums);
      return;
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      if (channel + k < walk.out_channels) y[k] = from_float<T>(sums[k]);
    }
  }
};

template <typename T, typename W>
struct Gradients {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr std::uint32_t kSums = (W::kTaps + 1) * kOutputs;  // of a thread; bias last
  static constexpr std::uint32_t kMostPadding = 8;
  using Channels = Packed<T, kOutputs>;
  static constexpr int kPhases = 2, kBlocksAtOnce = blocks_at_once<W>(kOutputs == 8 ? 168 : 128);
  struct Shared {
    float sums[kSums * (kThreads + kMostPadding)];
  };

  Walk walk;
  // The workspace has [pixel_blocks][out_channels * taps weights, then out_channels biases].
  FewChannelGradients args;
  bool vectors;

  __host__ __device__ void operator()(int phase, Shared& shared, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Walk::Place at = walk.place(block, thread, kOutputs);
    if (phase == 0) {
      sum_tiles(shared, at, thread);
    } else {
      sum_threads(shared, at, thread);
    }
  }

  // The distance from one sum to the next; a sum has one value a thread. It is padded, so that the
  // threads of sum_threads, which take all lanes of a sum before the next sum, hit other banks.
  __host__ __device__ std::uint32_t stride() const {
    const std::uint32_t lanes = 1U << walk.lane_bits;
    return kThreads + (lanes < kMostPadding ? lanes : kMostPadding);
  }

  __host__ __device__ void sum_tiles(Shared& shared, const Walk::Place& at,
                                     std::uint32_t thread) const {
    float sums[W::kTaps + 1][kOutputs] = {};
    if (at.channel < walk.out_channels) {
      if (vectors) {
        add_tiles<true>(at, sums);
      } else {
        add_tiles<false>(at, sums);
      }
    }
    DDPBENCH_UNROLL
    for (std::uint32_t t = 0; t <= W::kTaps; ++t) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        shared.sums[(t * kOutputs + k) * stride() + thread] = sums[t][k];
      }
    }
  }

  // The branch on how to read the output's gradient is outside of the loop. In the loop, the reads
  // of one pixel would have to arrive before those of the next start.
  template <bool kVectors>
  __host__ __device__ void add_tiles(const Walk::Place& at,
                                     float (&sums)[W::kTaps + 1][kOutputs]) const {
    const std::uint32_t step = walk.pixel_blocks * walk.slots;
    DDPBENCH_UNROLL_BY(1)
    for (std::uint32_t i = at.pixel_block * walk.slots + at.slot; i < walk.tiles; i += step) {
      add_tile<kVectors>(walk.tile<W>(i), at.channel, sums);
    }
  }

  template <bool kVectors>
  __host__ __device__ void add_tile(const Walk::Tile& tile, std::uint32_t channel,
                                    float (&sums)[W::kTaps + 1][kOutputs]) const {
    InputTile<T, W> tile_input;
    tile_input.read(walk, static_cast<const T*>(args.x), tile);
    Channels gradients[kPixels] = {}, masks[kPixels] = {};
    read_outputs<kVectors>(args.dy, tile, channel, gradients);
    if (args.y != nullptr) read_outputs<kVectors>(args.y, tile, channel, masks);
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < kPixels; ++o) {
      float gradient[kOutputs];
      unpack<T>(gradients[o], gradient);
      if (args.y != nullptr) {
        float output[kOutputs];
        unpack<T>(masks[o], output);
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) {
          gradient[k] = relu_gradient(output[k], gradient[k]);
        }
      }
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[W::kTaps][k] += gradient[k];
      tile_input.for_each_tap(o, [&](std::uint32_t tap, float input) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) sums[tap][k] += input * gradient[k];
      });
    }
  }

  // Reads the thread's channels of a tile's outputs. Leaves `to` unchanged beyond the row's end.
  template <bool kVectors>
  __host__ __device__ void read_outputs(const void* map, const Walk::Tile& tile,
                                        std::uint32_t channel, Channels (&to)[kPixels]) const {
    const T* const first = static_cast<const T*>(map) + walk.output(tile) + channel;
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < kPixels; ++o) {
      if (tile.column + o >= walk.out_w) continue;
      to[o] = read_channels<kVectors>(first + o * walk.out_channels, channel);
    }
  }

  template <bool kVectors>
  __host__ __device__ Channels read_channels(const T* from, std::uint32_t channel) const {
    if constexpr (kVectors) {
      return read_words<sizeof(Channels) / sizeof(std::uint32_t)>(from);
    } else {
      T values[kOutputs];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        values[k] = channel + k < walk.out_channels ? from[k] : T{};
      }
      Channels result;
      memcpy(&result, values, sizeof(result));
      return result;
    }
  }

  // Thread i of the block adds up sums i, i + kThreads, ... of those of its lanes.
  __host__ __device__ void sum_threads(const Shared& shared, const Walk::Place& at,
                                       std::uint32_t thread) const {
    const std::uint32_t weights = walk.out_channels * W::kTaps;
    float* const row =
        static_cast<float*>(args.workspace) + at.pixel_block * (weights + walk.out_channels);
    for (std::uint32_t i = thread; i < kSums << walk.lane_bits; i += kThreads) {
      const std::uint32_t lane = i & ((1U << walk.lane_bits) - 1), sum = i >> walk.lane_bits;
      const std::uint32_t tap = sum / kOutputs;
      const std::uint32_t channel =
          ((at.channel_block << walk.lane_bits) + lane) * kOutputs + sum % kOutputs;
      if (channel >= walk.out_channels) continue;
      float total = 0;
      for (std::uint32_t slot = 0; slot < walk.slots; ++slot) {
        total += shared.sums[sum * stride() + (slot << walk.lane_bits) + lane];
      }
      row[tap < W::kTaps ? channel * W::kTaps + tap : weights + channel] = total;
    }
  }
};

std::uint32_t partial_rows(const FewChannelShape& s) {
  std::uint32_t rows = 0;
  with_kernel_types(s, [&]<typename T, typename W>(T, W) {
    rows = plan_walk<T, W>(s, Gradients<T, W>::kBlocksAtOnce).pixel_blocks;
    return cudaSuccess;
  });
  return rows;
}

std::uint32_t window_of(const FewChannelShape& s) {
  return s.window.kernel_h * s.window.kernel_w * s.channels;
}

}  // namespace
}  // namespace few_channels

cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream) {
  using namespace few_channels;
  return with_kernel_types(shape, [&]<typename T, typename W>(T, W) {
    using Body = Forward<T, W>;
    const Body body{plan_walk<T, W>(shape, Body::kBlocksAtOnce), args,
                    may_use_vectors<T, W>(shape, args.y)};
    return for_each_block(body.walk.blocks(), stream, body);
  });
}

std::size_t few_channel_workspace_bytes(const FewChannelShape& shape) {
  using namespace few_channels;
  return sizeof(float) * partial_rows(shape) * shape.out_channels * (window_of(shape) + 1);
}

cudaError_t few_channel_gradients(const FewChannelShape& shape, const FewChannelGradients& args,
                                  cudaStream_t stream) {
  using namespace few_channels;
  const cudaError_t status = with_kernel_types(shape, [&]<typename T, typename W>(T, W) {
    using Body = Gradients<T, W>;
    const Body body{plan_walk<T, W>(shape, Body::kBlocksAtOnce), args,
                    may_use_vectors<T, W>(shape, args.dy, args.y)};
    return for_each_block(body.walk.blocks(), stream, body);
  });
  if (status != cudaSuccess) return status;
  return add_up_rows({.rows = partial_rows(shape),
                      .columns = shape.out_channels * (window_of(shape) + 1),
                      .matrix = static_cast<const float*>(args.workspace),
                      .sums = args.dw,
                      .split = shape.out_channels * window_of(shape),
                      .rest = args.dbias,
                      .accumulate = args.accumulate},
                     stream);
}

}  // namespace ddpbench::ops::cuda
