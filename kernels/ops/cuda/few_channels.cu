// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A thread keeps the weights (backward: the sums) of some neighbouring output channels in registers
// and goes over tiles of kPixels neighbouring outputs of a row. The lanes of a pixel's channels are
// neighbours, so what a warp reads or writes of the output are whole sectors. Backward, a block
// puts its threads' sums together, and a second launch the blocks'.
#include "kernels/ops/cuda/few_channels.h"

#include <algorithm>

#include "kernels/ops/cuda/column_sums.h"
#include "kernels/ops/cuda/divide.cuh"
#include "kernels/ops/cuda/launch.cuh"
#include "kernels/ops/cuda/number.cuh"
#include "kernels/ops/cuda/vector.cuh"

namespace ddpbench::ops::cuda {
namespace {

constexpr std::uint32_t kPixels = 4;        // outputs of a tile
constexpr std::uint32_t kMaxLanes = 32;     // threads of a pixel
constexpr std::uint32_t kForwardWaves = 4;  // each block reads its weights: few, but even ones

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
constexpr std::uint32_t kOutputsOf = std::min(kVectorOf<T>, W::kMostOutputs);

// Blocks that a multiprocessor holds at once; the launch bounds keep registers there. Each of its
// quarters has 16,384 registers for whole warps. Of blocks of 4 warps it takes 3 with 168 registers
// a thread, as 8 outputs need, and 5 with 96; of blocks of 2 warps 4, whatever they need.
template <typename T, typename W>
constexpr std::uint32_t kBlocksOf = W::kThreads == 64       ? 4
                                    : kOutputsOf<T, W> == 8 ? 3
                                                            : 5;

std::uint32_t ceil_div(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

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

template <typename T, typename W>
Walk plan_walk(const FewChannelShape& s, std::uint32_t waves) {
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
      std::max(1U, s.multiprocessors * kBlocksOf<T, W> * waves / channel_blocks);
  walk.pixel_blocks = std::min(ceil_div(walk.tiles, walk.slots), room);
  return walk;
}

// The pixels of one input row that a tile sees; zeros outside of the image.
template <typename T, typename W>
struct InputRow {
  float value[W::kColumns * W::kChannels];

  // `row` may wrap around above the image, and `first` to its left.
  __host__ __device__ void load(const Walk& walk, const T* image, std::uint32_t row,
                                std::uint32_t first) {
    const bool inside = row < walk.in_h;
    const std::uint32_t start = inside ? row * walk.in_w * W::kChannels : 0;
    DDPBENCH_UNROLL
    for (std::uint32_t j = 0; j < W::kColumns; ++j) {
      const std::uint32_t column = first + j;
      const bool is_there = inside && column < walk.in_w;
      DDPBENCH_UNROLL
      for (std::uint32_t c = 0; c < W::kChannels; ++c) {
        value[j * W::kChannels + c] =
            is_there ? to_float(image[start + column * W::kChannels + c]) : 0.0F;
      }
    }
  }
  __host__ __device__ float at(std::uint32_t pixel, std::uint32_t tap_of_row) const {
    return value[pixel * W::kStrideW * W::kChannels + tap_of_row];
  }
};

// Calls use(tap, pixel, input) for every tap of every pixel of the tile, a row of taps at a time.
template <typename W, typename T, typename Use>
__host__ __device__ inline void for_each_tap(const Walk& walk, const T* x, const Walk::Tile& tile,
                                             const Use& use) {
  constexpr std::uint32_t kRowTaps = W::kKernel * W::kChannels;
  const T* const image = x + tile.n * walk.in_h * walk.in_w * W::kChannels;
  DDPBENCH_UNROLL
  for (std::uint32_t p = 0; p < W::kKernel; ++p) {
    InputRow<T, W> row;
    row.load(walk, image, tile.row * walk.stride_h + p - walk.pad_h,
             tile.column * W::kStrideW - walk.pad_w);
    DDPBENCH_UNROLL
    for (std::uint32_t t = 0; t < kRowTaps; ++t) {
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < kPixels; ++i) use(p * kRowTaps + t, i, row.at(i, t));
    }
  }
}

template <typename T, typename W>
struct Forward {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr int kPhases = 1, kBlocksAtOnce = static_cast<int>(kBlocksOf<T, W>);
  struct Shared {};

  Walk walk;
  const T* x;
  const float *w, *bias;
  T* y;
  bool relu, vectors;

  __host__ __device__ void operator()(int, Shared&, std::uint32_t block,
                                      std::uint32_t thread) const {
    const Walk::Place at = walk.place(block, thread, kOutputs);
    float weights[W::kTaps][kOutputs], start[kOutputs];
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      const std::uint32_t channel = at.channel + k;
      const bool is_there = channel < walk.out_channels;
      start[k] = is_there && bias != nullptr ? bias[channel] : 0.0F;
      DDPBENCH_UNROLL
      for (std::uint32_t t = 0; t < W::kTaps; ++t) {
        weights[t][k] = is_there ? w[channel * W::kTaps + t] : 0.0F;
      }
    }
    if (at.channel >= walk.out_channels) return;
    const std::uint32_t step = walk.pixel_blocks * walk.slots;
    for (std::uint32_t i = at.pixel_block * walk.slots + at.slot; i < walk.tiles; i += step) {
      run_tile(walk.tile(i), at.channel, weights, start);
    }
  }

  __host__ __device__ void run_tile(const Walk::Tile& tile, std::uint32_t channel,
                                    const float (&weights)[W::kTaps][kOutputs],
                                    const float (&start)[kOutputs]) const {
    float sums[kPixels][kOutputs];
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[i][k] = start[k];
    }
    for_each_tap<W>(walk, x, tile, [&](std::uint32_t tap, std::uint32_t i, float input) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[i][k] += input * weights[tap][k];
    });
    T* const pixels =
        y + ((tile.n * walk.out_h + tile.row) * walk.out_w + tile.column) * walk.out_channels +
        channel;
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      if (tile.column + i < walk.out_w) write(pixels + i * walk.out_channels, channel, sums[i]);
    }
  }

  __host__ __device__ void write(T* to, std::uint32_t channel, float (&values)[kOutputs]) const {
    if (relu) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) values[k] = cuda::relu(values[k]);
    }
    if (vectors) {
      store(to, values);
      return;
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      if (channel + k < walk.out_channels) to[k] = from_float<T>(values[k]);
    }
  }
};

template <typename T, typename W>
struct Gradients {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr std::uint32_t kSums = (W::kTaps + 1) * kOutputs;  // of a thread; bias last
  static constexpr std::uint32_t kMostPadding = 8;
  static constexpr int kPhases = 2, kBlocksAtOnce = static_cast<int>(kBlocksOf<T, W>);
  struct Shared {
    float sums[kSums * (kThreads + kMostPadding)];
  };

  Walk walk;
  const T *x, *dy, *y;
  float* partial;  // [pixel_blocks][out_channels * taps weights, then out_channels biases]
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

  // The distance of a sum's values of all threads to the next sum's. Padded, so that the threads of
  // sum_threads, which take all lanes of a sum before the next one's, find them in other banks.
  __host__ __device__ std::uint32_t stride() const {
    const std::uint32_t lanes = 1U << walk.lane_bits;
    return kThreads + (lanes < kMostPadding ? lanes : kMostPadding);
  }

  __host__ __device__ void sum_tiles(Shared& shared, const Walk::Place& at,
                                     std::uint32_t thread) const {
    float sums[W::kTaps + 1][kOutputs] = {};
    const std::uint32_t step = walk.pixel_blocks * walk.slots;
    const std::uint32_t end = at.channel < walk.out_channels ? walk.tiles : 0;
    for (std::uint32_t i = at.pixel_block * walk.slots + at.slot; i < end; i += step) {
      add_tile(walk.tile(i), at.channel, sums);
    }
    DDPBENCH_UNROLL
    for (std::uint32_t t = 0; t <= W::kTaps; ++t) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        shared.sums[(t * kOutputs + k) * stride() + thread] = sums[t][k];
      }
    }
  }

  __host__ __device__ void add_tile(const Walk::Tile& tile, std::uint32_t channel,
                                    float (&sums)[W::kTaps + 1][kOutputs]) const {
    float gradient[kPixels][kOutputs];
    read_gradient(tile, channel, gradient);
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[W::kTaps][k] += gradient[i][k];
    }
    for_each_tap<W>(walk, x, tile, [&](std::uint32_t tap, std::uint32_t i, float input) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[tap][k] += input * gradient[i][k];
    });
  }

  __host__ __device__ void read_gradient(const Walk::Tile& tile, std::uint32_t channel,
                                         float (&gradient)[kPixels][kOutputs]) const {
    const std::uint32_t first =
        ((tile.n * walk.out_h + tile.row) * walk.out_w + tile.column) * walk.out_channels + channel;
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) gradient[i][k] = 0;
      if (tile.column + i >= walk.out_w) continue;
      const std::uint32_t at = first + i * walk.out_channels;
      read(dy + at, channel, gradient[i]);
      if (y == nullptr) continue;
      float output[kOutputs];
      read(y + at, channel, output);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        gradient[i][k] = relu_gradient(output[k], gradient[i][k]);
      }
    }
  }

  __host__ __device__ void read(const T* from, std::uint32_t channel,
                                float (&values)[kOutputs]) const {
    if (vectors) {
      load(from, values);
      return;
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      values[k] = channel + k < walk.out_channels ? to_float(from[k]) : 0.0F;
    }
  }

  // Thread i of the block takes sums i, i + kThreads, ... of those of its lanes.
  __host__ __device__ void sum_threads(const Shared& shared, const Walk::Place& at,
                                       std::uint32_t thread) const {
    const std::uint32_t weights = walk.out_channels * W::kTaps;
    float* const row = partial + at.pixel_block * (weights + walk.out_channels);
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

std::uint32_t partial_rows(const FewChannelShape& s) {
  std::uint32_t rows = 0;
  with_kernel_types(s, [&](auto element, auto window) {
    rows = plan_walk<decltype(element), decltype(window)>(s, 1).pixel_blocks;
    return cudaSuccess;
  });
  return rows;
}

std::uint32_t window_of(const FewChannelShape& s) { return s.kernel_h * s.kernel_w * s.channels; }

}  // namespace

bool has_few_channel_kernels(const FewChannelShape& s) {
  if (s.kernel_h != s.kernel_w || s.stride_w == 0) return false;
  if (s.kernel_h == 3 && s.channels == 1) return s.stride_w <= 2;
  return s.stride_w == 1 &&
         ((s.kernel_h == 3 && s.channels == 3) || (s.kernel_h == 5 && s.channels == 1));
}

cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream) {
  return with_kernel_types(shape, [&](auto element, auto window) {
    using T = decltype(element);
    using W = decltype(window);
    Forward<T, W> body{};
    body.walk = plan_walk<T, W>(shape, kForwardWaves);
    body.x = static_cast<const T*>(args.x);
    body.w = args.w;
    body.bias = args.bias;
    body.y = static_cast<T*>(args.y);
    body.relu = args.relu;
    body.vectors = may_use_vectors<T, W>(shape, args.y, nullptr);
    return for_each_block(body.walk.pixel_blocks * body.walk.channel_blocks.divisor(), stream,
                          body);
  });
}

std::size_t few_channel_workspace_bytes(const FewChannelShape& shape) {
  return sizeof(float) * partial_rows(shape) * shape.out_channels * (window_of(shape) + 1);
}

cudaError_t few_channel_gradients(const FewChannelShape& shape, const FewChannelGradients& args,
                                  cudaStream_t stream) {
  auto* const partial = static_cast<float*>(args.workspace);
  const cudaError_t status = with_kernel_types(shape, [&](auto element, auto window) {
    using T = decltype(element);
    using W = decltype(window);
    Gradients<T, W> body{};
    body.walk = plan_walk<T, W>(shape, 1);
    body.x = static_cast<const T*>(args.x);
    body.dy = static_cast<const T*>(args.dy);
    body.y = static_cast<const T*>(args.y);
    body.partial = partial;
    body.vectors = may_use_vectors<T, W>(shape, args.dy, args.y);
    return for_each_block(body.walk.pixel_blocks * body.walk.channel_blocks.divisor(), stream,
                          body);
  });
  if (status != cudaSuccess) return status;
  RowSums last{};
  last.rows = partial_rows(shape);
  last.columns = shape.out_channels * (window_of(shape) + 1);
  last.matrix = partial;
  last.sums = args.dw;
  last.split = shape.out_channels * window_of(shape);
  last.rest = args.dbias;
  last.accumulate = args.accumulate;
  return add_up_rows(last, stream);
}

}  // namespace ddpbench::ops::cuda
