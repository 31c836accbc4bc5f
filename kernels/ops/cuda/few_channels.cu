// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Forward: a thread keeps the weights of some neighbouring output channels in registers and goes
// over tiles of outputs (few_channel_tiles.cuh).
#include "kernels/ops/cuda/few_channel_tiles.cuh"

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
    InputTile<T, W> tile_input;
    tile_input.read(walk, x, tile);
    float sums[kPixels][kOutputs];
    DDPBENCH_UNROLL
    for (std::uint32_t i = 0; i < kPixels; ++i) {
      DDPBENCH_UNROLL
      for (std::uint32_t k = 0; k < kOutputs; ++k) sums[i][k] = start[k];
    }
    tile_input.for_each_tap([&](std::uint32_t tap, std::uint32_t i, float input) {
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

}  // namespace
}  // namespace few_channels

bool has_few_channel_kernels(const FewChannelShape& s) {
  if (s.kernel_h != s.kernel_w || s.stride_w == 0) return false;
  if (s.kernel_h == 3 && s.channels == 1) return s.stride_w <= 2;
  return s.stride_w == 1 &&
         ((s.kernel_h == 3 && s.channels == 3) || (s.kernel_h == 5 && s.channels == 1));
}

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
    body.relu = args.relu;
    body.vectors = may_use_vectors<T, W>(shape, args.y, nullptr);
    return for_each_block(body.walk.pixel_blocks * body.walk.channel_blocks.divisor(), stream,
                          body);
  });
}

}  // namespace ddpbench::ops::cuda
