// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd's passes over groups of tiles, and their workspaces:
//
//   forward, backward data   [transformed weights][a thread: transformed inputs, products] ...
//   backward weights         [sums][a thread: bias sums, transformed inputs, gradients] ...
//
// And conv2d on them. FLOPs are counted as those of direct convolution, as in conv2d.cpp. Maps and
// weights have the layouts that oneDNN's direct convolution prefers, so that its neighbours need no
// reorder. Biases are copied, because the kernels read whole blocks.
#include "kernels/ops/cpu/winograd.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/ops/cpu/cpu_ops.h"

namespace ddpbench::ops::cpu {
namespace {

// The transformed maps of a group may take half of the L2 cache; the rest is for the weights.
constexpr std::int64_t kCacheShare = 2;
// A smaller group would read the transformed weights too often: from a cache behind, or, where they
// take more than 16 times the L2 cache, from memory. On Zen 4 the passes of 512 channels took 0.92
// of the time with groups of 84 tiles, those of 64 to 256 1.03.
constexpr std::int64_t kLeastTiles = 28, kLeastTilesFromMemory = 84;
constexpr std::int64_t kCachesFromMemory = 16;

// The shape of backward data: from output gradients to input gradients.
WinogradShape turned(const WinogradShape& s) {
  return {.batch = s.batch,
          .in_blocks = s.out_blocks,
          .height = s.out_h,
          .width = s.out_w,
          .out_blocks = s.in_blocks,
          .out_h = s.height,
          .out_w = s.width,
          .pad_h = 2 - s.pad_h,
          .pad_w = 2 - s.pad_w};
}

// The distance of two of the 36 matrices. One vector more than they take, lest all 36 elements of a
// tile fall into one set of the cache.
std::int64_t stride_of(std::int64_t blocks, std::int64_t vectors, std::int64_t block) {
  return (blocks * vectors + 1) * block;
}
std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(round_up(floats, std::int64_t{16})) * sizeof(float);
}

// The group of this round among a thread's tiles; none of them at last.
WinogradTiles group_in(Share tiles, std::int64_t group, std::int64_t round) {
  const std::int64_t first = std::min(tiles.begin + round * group, tiles.end);
  return {first, std::min(group, tiles.end - first)};
}

class WinogradConv2d : public Op {
 public:
  WinogradConv2d(Team team, std::size_t l2_bytes, DataType maps, const Conv2dDesc& desc)
      : Op(plain_plan(desc)),
        team_(team),
        desc_(desc),
        cache_bytes_(static_cast<std::int64_t>(l2_bytes)),
        type_(team.simd == SimdLevel::avx512 ? maps : DataType::fp32),
        kernel_(team.simd == SimdLevel::avx512 ? winograd_kernel_avx512(type_)
                                               : winograd_kernel_avx2()),
        shape_(winograd_shape(desc, kernel_.block)),
        turned_(turned(shape_)) {
    plan_.inputs = {image_layout(desc.input.shape, kernel_.block, type_)};
    plan_.output = image_layout(plan_.output.shape, kernel_.block, type_);
    TensorLayout& weight = plan_.parameters[0].layout;
    weight.tag = kernel_.block == 16 ? "ABcd16b16a" : "ABcd8b8a";
    weight.bytes =
        sizeof(float) * 9 * whole_blocks(desc.input.shape[1]) * whole_blocks(desc.out_channels);
    plan_.description += fmt::format(" (own wino_4x3:{})", to_string(team.simd));
    lay_out_workspace();
  }

  void forward(Stream&, const ForwardArgs& args) override {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    float* const bias = desc_.bias ? biases(workspace) : nullptr;
    if (bias) copy_biases(static_cast<const float*>(args.parameters[1]), bias);
    convolve(false, args.inputs[0], args.parameters[0], bias, args.output, workspace);
  }

  void backward(Stream&, const BackwardArgs& args) override {
    auto* const workspace = static_cast<std::byte*>(args.workspace);
    const void* dy = args.grad_output;
    if (desc_.fuse_relu) {
      activation_backward(team_, Activation::relu, type_, args.output, dy, args.workspace,
                          static_cast<std::int64_t>(plan_.output.bytes / size_of(type_)));
      dy = args.workspace;
    }
    auto* const db = desc_.bias ? static_cast<float*>(args.grad_parameters[1]) : nullptr;
    float* const sums = db ? biases(workspace) : nullptr;
    if (db && args.accumulate) copy_biases(db, sums);
    if (args.grad_parameters[0]) sum_gradients(args, dy, sums, workspace + main_offset_);
    if (db) std::copy_n(sums, desc_.out_channels, db);
    if (desc_.needs_grad_input && !args.grad_inputs.empty() && args.grad_inputs[0])
      convolve(true, dy, args.parameters[0], nullptr, args.grad_inputs[0], workspace);
  }

 private:
  // The distances between two of the 36 matrices, in floats.
  struct Strides {
    std::int64_t inputs, outputs, weights;
  };

  // Those that have tiles.
  int threads_of(const WinogradShape& s) const {
    return static_cast<int>(std::min<std::int64_t>(team_.threads, s.tiles()));
  }

  // The tiles of a group: as many as fit, in groups of nearly equal size of each thread's tiles.
  std::int64_t group_of(const WinogradShape& s) const {
    constexpr auto kFloatBytes = static_cast<std::int64_t>(sizeof(float));
    const std::int64_t block_bytes = kWinogradProducts * kernel_.block * kFloatBytes;
    const std::int64_t of_tile = (s.in_blocks + s.out_blocks) * block_bytes;
    const std::int64_t of_weights = s.in_blocks * s.out_blocks * kernel_.block * block_bytes;
    const std::int64_t least =
        of_weights > kCachesFromMemory * cache_bytes_ ? kLeastTilesFromMemory : kLeastTiles;
    const std::int64_t room = cache_bytes_ / kCacheShare / of_tile;
    const std::int64_t of_thread = ceil_div(s.tiles(), std::int64_t{threads_of(s)});
    return ceil_div(of_thread, ceil_div(of_thread, std::max(room, least)));
  }

  Strides strides_of(const WinogradShape& s) const {
    const std::int64_t block = kernel_.block, group = group_of(s);
    return {.inputs = stride_of(s.in_blocks, group, block),
            .outputs = stride_of(s.out_blocks, group, block),
            .weights = stride_of(s.in_blocks * s.out_blocks, block, block)};
  }

  // ---- forward and backward data ----

  std::size_t workspace_bytes(const WinogradShape& s) const {
    const Strides strides = strides_of(s);
    const std::int64_t of_thread = strides.inputs + strides.outputs;
    return bytes_of(kWinogradProducts * (strides.weights + threads_of(s) * of_thread));
  }

  // `bias` has whole blocks, or is null.
  void convolve(bool backward, const void* x, const void* weights, const float* bias, void* y,
                std::byte* whole_workspace) const {
    auto* const workspace = reinterpret_cast<float*>(whole_workspace + main_offset_);
    const WinogradShape& s = backward ? turned_ : shape_;
    const Strides strides = strides_of(s);
    const bool relu = !backward && desc_.fuse_relu;
    parallel_shares(team_.threads, s.out_blocks, 1, [&](int, std::int64_t begin, std::int64_t end) {
      kernel_.transform_weights(s, static_cast<const float*>(weights), backward, begin, end,
                                workspace, strides.weights);
    });
    float* const maps = workspace + kWinogradProducts * strides.weights;
    const std::int64_t group = group_of(s);
    const auto work = [&](int thread, std::int64_t begin, std::int64_t end) {
      float* const inputs = maps + thread * kWinogradProducts * (strides.inputs + strides.outputs);
      float* const products = inputs + kWinogradProducts * strides.inputs;
      for (std::int64_t first = begin; first < end; first += group) {
        const WinogradTiles tiles{first, std::min(group, end - first)};
        kernel_.transform_input(s, tiles, x, inputs, strides.inputs);
        kernel_.multiply(s, tiles.count, inputs, strides.inputs, workspace, strides.weights,
                         products, strides.outputs);
        kernel_.transform_output(s, tiles, products, strides.outputs, bias, relu, y);
      }
    };
    parallel_shares(threads_of(s), s.tiles(), 1, work);
  }

  // ---- backward weights ----

  // What each thread keeps, in floats.
  std::int64_t gradient_maps() const {
    const Strides strides = strides_of(shape_);
    return shape_.out_blocks * kernel_.block +
           kWinogradProducts * (strides.inputs + strides.outputs);
  }

  // Adds the products of all threads' groups of this round. In the first one, all of them have
  // some.
  void add_products(std::int64_t round, const float* maps, float* sums) const {
    const WinogradShape& s = shape_;
    const Strides strides = strides_of(s);
    const std::int64_t group = group_of(s), of_thread = gradient_maps();
    const int owners = threads_of(s);
    const auto work = [&](int, std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part)
        for (int t = 0; t < owners; ++t) {
          const std::int64_t count =
              group_in(share_of(s.tiles(), 1, t, owners), group, round).count;
          if (count == 0) continue;
          const float* const inputs = maps + t * of_thread + s.out_blocks * kernel_.block;
          const float* const gradients = inputs + kWinogradProducts * strides.inputs;
          kernel_.multiply_gradient(s, part, count, inputs, strides.inputs, gradients,
                                    strides.outputs, round + t > 0, sums, strides.weights);
        }
    };
    parallel_shares(team_.threads, s.gradient_parts(), 1, work);
  }

  // Sums the gradients of the weights, and of the biases in whole blocks, where they are not null.
  void sum_gradients(const BackwardArgs& args, const void* dy, float* bias_gradient,
                     std::byte* workspace) const {
    const WinogradShape& s = shape_;
    const Strides strides = strides_of(s);
    const std::int64_t group = group_of(s), channels = s.out_blocks * kernel_.block;
    const std::int64_t of_thread = gradient_maps();
    const int owners = threads_of(s);
    auto* const sums = reinterpret_cast<float*>(workspace);
    float* const maps = sums + kWinogradProducts * strides.weights;
    const std::int64_t rounds = ceil_div(ceil_div(s.tiles(), std::int64_t{owners}), group);
    for (std::int64_t round = 0; round < rounds; ++round) {
      const auto transform = [&](int thread, std::int64_t begin, std::int64_t end) {
        float* const bias = maps + thread * of_thread;
        float* const inputs = bias + channels;
        if (round == 0) std::fill_n(bias, channels, 0.0F);
        const WinogradTiles tiles = group_in({begin, end}, group, round);
        kernel_.transform_input(s, tiles, args.inputs[0], inputs, strides.inputs);
        kernel_.transform_gradient(s, tiles, dy, inputs + kWinogradProducts * strides.inputs,
                                   strides.outputs, bias);
      };
      parallel_shares(owners, s.tiles(), 1, transform);
      add_products(round, maps, sums);
    }
    auto* const dw = static_cast<float*>(args.grad_parameters[0]);
    parallel_shares(team_.threads, s.out_blocks, 1, [&](int, std::int64_t begin, std::int64_t end) {
      kernel_.transform_sums(s, sums, strides.weights, args.accumulate, begin, end, dw);
    });
    for (std::int64_t c = 0; bias_gradient && c < channels; ++c) {
      float total = 0;
      for (int t = 0; t < owners; ++t) total += maps[t * of_thread + c];
      bias_gradient[c] = args.accumulate ? bias_gradient[c] + total : total;
    }
  }

  // The workspace: [masked output gradient][biases in whole blocks][a pass].
  void lay_out_workspace() {
    biases_offset_ = desc_.fuse_relu ? round_up(plan_.output.bytes, 64) : 0;
    main_offset_ =
        biases_offset_ +
        (desc_.bias ? round_up(sizeof(float) * whole_blocks(desc_.out_channels), 64) : 0);
    const std::size_t weights = bytes_of(kWinogradProducts * strides_of(shape_).weights +
                                         threads_of(shape_) * gradient_maps());
    std::size_t pass = std::max(workspace_bytes(shape_), weights);
    if (desc_.needs_grad_input) pass = std::max(pass, workspace_bytes(turned_));
    plan_.workspace_bytes = main_offset_ + pass;
  }
  std::size_t whole_blocks(std::int64_t channels) const {
    return static_cast<std::size_t>(round_up(channels, kernel_.block));
  }
  float* biases(std::byte* workspace) const {
    return reinterpret_cast<float*>(workspace + biases_offset_);
  }
  void copy_biases(const float* from, float* to) const {
    std::fill_n(std::copy_n(from, desc_.out_channels, to),
                whole_blocks(desc_.out_channels) - static_cast<std::size_t>(desc_.out_channels),
                0.0F);
  }

  Team team_;
  Conv2dDesc desc_;
  std::int64_t cache_bytes_;
  DataType type_;  // of the maps
  WinogradKernel kernel_;
  WinogradShape shape_, turned_;
  std::size_t biases_offset_ = 0, main_offset_ = 0;
};

}  // namespace

bool has_winograd(const Conv2dDesc& desc) {
  const Window2d& w = desc.window;
  return desc.groups == 1 && desc.dilation == Dilation2d{} && w.kernel_h == 3 && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && w.pad_h <= 2 && w.pad_w <= 2 &&
         w.pad_h + w.more_h <= 2 && w.pad_w + w.more_w <= 2;
}

WinogradShape winograd_shape(const Conv2dDesc& desc, std::int64_t block) {
  const Shape& in = desc.input.shape;
  const Shape out = output_shape(desc);
  return {.batch = in[0],
          .in_blocks = ceil_div(in[1], block),
          .height = in[2],
          .width = in[3],
          .out_blocks = ceil_div(out[1], block),
          .out_h = out[2],
          .out_w = out[3],
          .pad_h = desc.window.pad_h,
          .pad_w = desc.window.pad_w};
}

std::unique_ptr<Op> make_winograd_conv2d(Team team, std::size_t l2_bytes, DataType maps,
                                         const Conv2dDesc& desc) {
  const std::string where = where_of(desc);
  if (!has_winograd(desc) || team.simd == SimdLevel::portable)
    throw DeviceError(
        fmt::format("no Winograd for {} with {} instructions", where, to_string(team.simd)));
  return std::make_unique<WinogradConv2d>(team, l2_bytes, maps, desc);
}

}  // namespace ddpbench::ops::cpu
