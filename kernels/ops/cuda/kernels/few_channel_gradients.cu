// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Backward: a thread keeps the sums of some neighbouring output channels in registers and goes over
// tiles of outputs (few_channel_tiles.cuh). A block adds up the sums of its threads. A second
// launch adds up those of the blocks.
#include "kernels/ops/cuda/kernels/column_sums.h"
#include "kernels/ops/cuda/kernels/few_channel_tiles.cuh"
#include "kernels/ops/cuda/kernels/few_channels.h"

namespace ddpbench::ops::cuda {
namespace few_channels {
namespace {

template <typename T, typename W>
struct Gradients {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr std::uint32_t kSums = (W::kTaps + 1) * kOutputs;  // of a thread; bias last
  static constexpr std::uint32_t kMostPadding = 8;
  // Decides which gradients count: the output where it is positive; pooled, the winners.
  using Mask = std::conditional_t<W::kPool == 1, T, std::uint8_t>;
  using Channels = Packed<T, kOutputs>;
  using Masks = Packed<Mask, kOutputs>;
  static constexpr int kPhases = 2, kBlocksAtOnce = blocks_at_once<W>(kOutputs == 8   ? 168
                                                                      : W::kPool == 1 ? 128
                                                                                      : 96);
  struct Shared {
    float sums[kSums * (kThreads + kMostPadding)];
  };

  Walk walk;
  const T *x, *dy;
  const Mask* mask;  // null, not pooled only: all gradients count
  float* partial;    // [pixel_blocks][out_channels * taps weights, then out_channels biases]
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
    tile_input.read(walk, x, tile);
    Channels gradients[W::kTileOutputs] = {};
    Masks masks[W::kTileOutputs] = {};
    read_outputs<kVectors>(dy, tile, channel, gradients);
    if (W::kPool > 1 || mask != nullptr) read_outputs<kVectors>(mask, tile, channel, masks);
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < W::kTileOutputs; ++o) {
      float counted[kOutputs], gradient[W::kPooled][kOutputs];
      unpack(gradients[o], counted);
      spread(masks[o], counted, gradient);
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[W::kTaps][k] += counted[k];
      tile_input.for_each_tap(o, [&](std::uint32_t tap, std::uint32_t i, float input) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) sums[tap][k] += input * gradient[i][k];
      });
    }
  }

  // Makes the gradient of an output's pixels from the output's, `counted`. Sets `counted` to zero
  // where it does not count.
  __host__ __device__ void spread(const Masks& masks, float (&counted)[kOutputs],
                                  float (&gradient)[W::kPooled][kOutputs]) const {
    if constexpr (W::kPool == 1) {
      if (mask != nullptr) {
        float output[kOutputs];
        unpack(masks, output);
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) {
          counted[k] = relu_gradient(output[k], counted[k]);
        }
      }
      memcpy(gradient, counted, sizeof(counted));
    } else {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        const std::uint32_t winner = masks.word[k / 4], shift = k % 4 * 8;
        DDPBENCH_UNROLL
        for (std::uint32_t i = 0; i < W::kPooled; ++i) {
          gradient[i][k] = (winner & (1U << (shift + i))) != 0 ? counted[k] : 0.0F;
        }
        counted[k] = (winner & (0xFFU << shift)) != 0 ? counted[k] : 0.0F;
      }
    }
  }

  // Reads the thread's channels of a tile's outputs. Leaves `to` unchanged beyond the row's end.
  template <bool kVectors, typename Element>
  __host__ __device__ void read_outputs(const Element* map, const Walk::Tile& tile,
                                        std::uint32_t channel,
                                        Packed<Element, kOutputs> (&to)[W::kTileOutputs]) const {
    const Element* const first = map + walk.output(tile) + channel;
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < W::kTileOutputs; ++o) {
      if (tile.column + o >= walk.out_w) continue;
      to[o] = read_channels<kVectors>(first + o * walk.out_channels, channel);
    }
  }

  template <bool kVectors, typename Element>
  __host__ __device__ Packed<Element, kOutputs> read_channels(const Element* from,
                                                              std::uint32_t channel) const {
    using Result = Packed<Element, kOutputs>;
    if constexpr (kVectors) {
      return read_words<sizeof(Result) / sizeof(std::uint32_t)>(from);
    } else {
      Element values[kOutputs];
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) {
        values[k] = channel + k < walk.out_channels ? from[k] : Element{};
      }
      Result result;
      memcpy(&result, values, sizeof(result));
      return result;
    }
  }

  // Thread i of the block adds up sums i, i + kThreads, ... of those of its lanes.
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

std::uint32_t partial_rows(const FewChannelShape& s) {
  std::uint32_t rows = 0;
  with_kernel_types(s, [&](auto element, auto window) {
    using T = decltype(element);
    using W = decltype(window);
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

std::size_t few_channel_workspace_bytes(const FewChannelShape& shape) {
  using namespace few_channels;
  return sizeof(float) * partial_rows(shape) * shape.out_channels * (window_of(shape) + 1);
}

cudaError_t few_channel_gradients(const FewChannelShape& shape, const FewChannelGradients& args,
                                  cudaStream_t stream) {
  using namespace few_channels;
  auto* const partial = static_cast<float*>(args.workspace);
  const cudaError_t status = with_kernel_types(shape, [&](auto element, auto window) {
    using T = decltype(element);
    using W = decltype(window);
    Gradients<T, W> body{};
    body.walk = plan_walk<T, W>(shape, body.kBlocksAtOnce);
    body.x = static_cast<const T*>(args.x);
    body.dy = static_cast<const T*>(args.dy);
    body.mask =
        static_cast<const typename Gradients<T, W>::Mask*>(W::kPool == 1 ? args.y : args.winners);
    body.partial = partial;
    body.vectors = may_use_vectors<T, W>(shape, args.dy, body.mask);
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
