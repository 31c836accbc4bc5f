// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Forward: a thread keeps the weights of some neighbouring output channels in registers and goes
// over tiles of outputs (few_channel_tiles.cuh).
#include "kernels/ops/cuda/kernels/few_channels.h"

#include "kernels/ops/cuda/kernels/few_channel_tiles.cuh"

namespace ddpbench::ops::cuda {
namespace few_channels {
namespace {

template <typename T, typename W>
struct Forward {
  static constexpr std::uint32_t kThreads = W::kThreads, kOutputs = kOutputsOf<T, W>;
  static constexpr int kPhases = 1, kBlocksAtOnce = blocks_at_once<W>(kOutputs == 8 ? 168 : 96);
  struct Shared {};

  Walk walk;
  const T* x;
  const float *w, *bias;
  T* y;
  std::uint8_t* winners;  // pooled only
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
      run_tile(walk.tile<W>(i), at.channel, weights, start);
    }
  }

  __host__ __device__ void run_tile(const Walk::Tile& tile, std::uint32_t channel,
                                    const float (&weights)[W::kTaps][kOutputs],
                                    const float (&start)[kOutputs]) const {
    InputTile<T, W> tile_input;
    tile_input.read(walk, x, tile);
    const std::uint32_t first = walk.output(tile) + channel;
    DDPBENCH_UNROLL
    for (std::uint32_t o = 0; o < W::kTileOutputs; ++o) {
      float sums[W::kPooled][kOutputs];
      DDPBENCH_UNROLL
      for (std::uint32_t i = 0; i < W::kPooled; ++i) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) sums[i][k] = start[k];
      }
      tile_input.for_each_tap(o, [&](std::uint32_t tap, std::uint32_t i, float input) {
        DDPBENCH_UNROLL
        for (std::uint32_t k = 0; k < kOutputs; ++k) sums[i][k] += input * weights[tap][k];
      });
      if (tile.column + o < walk.out_w) write(first + o * walk.out_channels, channel, sums);
    }
  }

  __host__ __device__ void write(std::uint32_t at, std::uint32_t channel,
                                 float (&sums)[W::kPooled][kOutputs]) const {
    if constexpr (W::kPool > 1) write_winners(at, channel, sums);
    if (relu) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[0][k] = cuda::relu(sums[0][k]);
    }
    if (vectors) {
      store(y + at, sums[0]);
      return;
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      if (channel + k < walk.out_channels) y[at + k] = from_float<T>(sums[0][k]);
    }
  }

  // Moves the largest of each channel's sums to the first. A winner is the bit of its pixel.
  __host__ __device__ void write_winners(std::uint32_t at, std::uint32_t channel,
                                         float (&sums)[W::kPooled][kOutputs]) const {
    std::uint32_t won[kOutputs];
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      won[k] = 1;
      DDPBENCH_UNROLL
      for (std::uint32_t i = 1; i < W::kPooled; ++i) {
        if (!exceeds(sums[i][k], sums[0][k])) continue;
        sums[0][k] = sums[i][k];
        won[k] = 1U << i;
      }
      if (relu && sums[0][k] <= 0) won[k] = 0;
    }
    if (vectors) {
      Packed<std::uint8_t, kOutputs> words{};
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) words.word[k / 4] |= won[k] << (k % 4 * 8);
      write_words(winners + at, words);
      return;
    }
    DDPBENCH_UNROLL
    for (std::uint32_t k = 0; k < kOutputs; ++k) {
      if (channel + k < walk.out_channels) winners[at + k] = static_cast<std::uint8_t>(won[k]);
    }
  }
};

}  // namespace
}  // namespace few_channels

cudaError_t few_channel_forward(const FewChannelShape& shape, const FewChannelForward& args,
                                cudaStream_t stream) {
  using namespace few_channels;
  return with_kernel_types(shape, [&](auto element, auto window) {
    using T = decltype(element);
    using W = decltype(window);
    Forward<T, W> body{};
    body.walk = plan_walk<T, W>(shape, body.kBlocksAtOnce);
    body.x = static_cast<const T*>(args.x);
    body.w = args.w;
    body.bias = args.bias;
    body.y = static_cast<T*>(args.y);
    body.winners = args.winners;
    body.relu = args.relu;
    body.vectors = may_use_vectors<T, W>(shape, args.y, args.winners);
    return for_each_block(body.walk.pixel_blocks * body.walk.channel_blocks.divisor(), stream,
                          body);
  });
}

}  // namespace ddpbench::ops::cuda
