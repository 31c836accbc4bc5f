// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd's weights and matrix products; winograd_transforms.h says how it is compiled. A Vector
// has also kRows and kGradientRows: the rows of two vectors each that its registers hold as sums.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/math.h"

#include "kernels/ops/cpu/transpose.h"
#include "kernels/ops/cpu/winograd_transforms.h"

namespace ddpbench::ops::cpu {

// One lane of input channels of one block of weights, from [3][3][block] to 36 vectors.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void transform_weight_lane(const float* weights, float* to,
                                                    std::int64_t stride) {
  constexpr std::int64_t kBlock = V::kWidth * V::kWidth;
  typename V::Values half[6][3];
  for (std::int64_t j = 0; j < 3; ++j) {
    typename V::Values g[3], points[6];
    for (std::int64_t i = 0; i < 3; ++i) g[i] = V::load(weights + (3 * i + j) * kBlock);
    weight_points<V>(g, points);
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
  }
  for (std::int64_t i = 0; i < 6; ++i) {
    typename V::Values points[6];
    weight_points<V>(half[i], points);
    for (std::int64_t j = 0; j < 6; ++j) {
      const auto scale = V::broadcast(winograd::kScale[i] * winograd::kScale[j]);
      V::store(to + (6 * i + j) * stride, V::mul(scale, points[j]));
    }
  }
}

template <typename V>
DDPBENCH_WINOGRAD_TARGET void transform_weights(const WinogradShape& shape, const float* weights,
                                                bool turned, std::int64_t begin, std::int64_t end,
                                                float* to, std::int64_t stride) {
  constexpr std::int64_t kBlock = V::kWidth * V::kWidth;
  const std::int64_t ins = shape.in_blocks, outs = shape.out_blocks;
  float kernel[std::size_t{9} * V::kWidth * V::kWidth];
  for (std::int64_t out = begin; out < end; ++out)
    for (std::int64_t in = 0; in < ins; ++in) {
      const float* from = weights + (out * ins + in) * 9 * kBlock;
      if (turned) {
        // [out lane][in lane] blocks of the input `out`: the roles of the channels are swapped.
        from = weights + (in * outs + out) * 9 * kBlock;
        for (std::int64_t k = 0; k < 9; ++k)
          blocked_to_maps(V::kWidth, V::kWidth, from + k * kBlock, kernel + (8 - k) * kBlock,
                          V::kWidth);
        from = kernel;
      }
      for (std::int64_t lane = 0; lane < V::kWidth; ++lane)
        transform_weight_lane<V>(from + lane * V::kWidth,
                                 to + ((out * ins + in) * V::kWidth + lane) * V::kWidth, stride);
    }
}

// The sums of one lane of input channels of one block, transformed back.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void transform_sum_lane(const float* sums, std::int64_t stride, bool add,
                                                 float* to) {
  constexpr std::int64_t kBlock = V::kWidth * V::kWidth;
  typename V::Values half[3][6];
  for (std::int64_t j = 0; j < 6; ++j) {
    typename V::Values m[6], gradients[3];
    for (std::int64_t i = 0; i < 6; ++i) {
      const auto scale = V::broadcast(winograd::kScale[i] * winograd::kScale[j]);
      m[i] = V::mul(scale, V::load(sums + (6 * i + j) * stride));
    }
    sum_points<V>(m, gradients);
    for (std::int64_t i = 0; i < 3; ++i) half[i][j] = gradients[i];
  }
  for (std::int64_t i = 0; i < 3; ++i) {
    typename V::Values gradients[3];
    sum_points<V>(half[i], gradients);
    for (std::int64_t j = 0; j < 3; ++j) {
      float* const at = to + (3 * i + j) * kBlock;
      V::store(at, add ? V::add(V::load(at), gradients[j]) : gradients[j]);
    }
  }
}

template <typename V>
DDPBENCH_WINOGRAD_TARGET void transform_sums(const WinogradShape& shape, const float* sums,
                                             std::int64_t stride, bool add, std::int64_t begin,
                                             std::int64_t end, float* weight_gradient) {
  constexpr std::int64_t kBlock = V::kWidth * V::kWidth;
  for (std::int64_t block = begin * shape.in_blocks; block < end * shape.in_blocks; ++block)
    for (std::int64_t lane = 0; lane < V::kWidth; ++lane)
      transform_sum_lane<V>(sums + (block * V::kWidth + lane) * V::kWidth, stride, add,
                            weight_gradient + block * 9 * kBlock + lane * V::kWidth);
}

// The operands of a product of a few rows and columns.
struct WinogradPanel {
  const float* left = nullptr;        // numbers to broadcast
  std::int64_t left_outer = 0;        // from one outer step to the next
  std::int64_t outer = 1, inner = 0;  // steps
  const float* right = nullptr;       // [outer * inner][kWidth], columns `right_column` apart
  std::int64_t right_column = 0;
  float* to = nullptr;  // [row][kWidth], columns `to_column` apart
  std::int64_t to_column = 0;
  bool add = false;  // to what is there
};

// to[row][column] (+)= sum over steps of left[row] * right[column], with kColumns vectors. The rows
// of `left` are kRowStride apart, its inner steps kStepStride. I: rows times columns.
template <typename V, std::size_t kColumns, std::int64_t kRowStride, std::int64_t kStepStride,
          std::size_t... I>
DDPBENCH_WINOGRAD_INLINE void multiply_panel(const WinogradPanel& p, std::index_sequence<I...>) {
  using Values = typename V::Values;
  Values sum[] = {(p.add ? V::load(p.to + static_cast<std::int64_t>(I / kColumns) * V::kWidth +
                                   static_cast<std::int64_t>(I % kColumns) * p.to_column)
                         : V::zero())...};
  const float* right = p.right;
  const std::int64_t column = kColumns > 1 ? p.right_column : 0;
  for (std::int64_t outer = 0; outer < p.outer; ++outer) {
    const float* left = p.left + outer * p.left_outer;
    for (std::int64_t k = 0; k < p.inner; ++k, left += kStepStride, right += V::kWidth) {
      const Values factor[2] = {V::load(right), V::load(right + column)};
      ((sum[I] = V::fma(V::broadcast(left[static_cast<std::int64_t>(I / kColumns) * kRowStride]),
                        factor[I % kColumns], sum[I])),
       ...);
    }
  }
  (V::store(p.to + static_cast<std::int64_t>(I / kColumns) * V::kWidth +
                static_cast<std::int64_t>(I % kColumns) * p.to_column,
            sum[I]),
   ...);
}

// Multiplies kRows tiles.
template <typename V, std::size_t kRows, std::size_t kColumns>
DDPBENCH_WINOGRAD_TARGET void multiply_tiles(const WinogradPanel& panel) {
  multiply_panel<V, kColumns, V::kWidth, 1>(panel, std::make_index_sequence<kRows * kColumns>());
}

using MultiplyTiles = void (*)(const WinogradPanel& panel);
template <typename V, std::size_t kColumns, std::size_t... I>
constexpr std::array<MultiplyTiles, V::kRows + 1> tile_multipliers(std::index_sequence<I...>) {
  return {nullptr, multiply_tiles<V, I + 1, kColumns>...};
}

template <typename V>
DDPBENCH_WINOGRAD_TARGET void multiply(const WinogradShape& shape, std::int64_t tiles,
                                       const float* inputs, std::int64_t input_stride,
                                       const float* weights, std::int64_t weight_stride,
                                       float* products, std::int64_t product_stride) {
  static constexpr auto kOne = tile_multipliers<V, 1>(std::make_index_sequence<V::kRows>());
  static constexpr auto kTwo = tile_multipliers<V, 2>(std::make_index_sequence<V::kRows>());
  const std::int64_t parts = ceil_div(tiles, V::kRows);  // of nearly equal sizes
  const std::int64_t depth = shape.in_blocks * V::kWidth;
  WinogradPanel panel;
  panel.left_outer = panel.to_column = tiles * V::kWidth;
  panel.outer = shape.in_blocks;
  panel.inner = V::kWidth;
  panel.right_column = depth * V::kWidth;
  for (std::int64_t i = 0; i < kWinogradProducts; ++i)
    for (std::int64_t out = 0; out < shape.out_blocks; out += 2)
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = tiles * part / parts, end = tiles * (part + 1) / parts;
        panel.left = inputs + i * input_stride + first * V::kWidth;
        panel.right = weights + i * weight_stride + out * panel.right_column;
        panel.to = products + i * product_stride + out * panel.to_column + first * V::kWidth;
        const auto& multipliers = out + 1 < shape.out_blocks ? kTwo : kOne;
        multipliers[static_cast<std::size_t>(end - first)](panel);
      }
}

template <typename V, std::size_t kColumns>
DDPBENCH_WINOGRAD_TARGET void multiply_lanes(const WinogradPanel& panel) {
  multiply_panel<V, kColumns, 1, V::kWidth>(
      panel, std::make_index_sequence<V::kGradientRows * kColumns>());
}

template <typename V>
DDPBENCH_WINOGRAD_TARGET void multiply_gradient(const WinogradShape& shape, std::int64_t part,
                                                std::int64_t tiles, const float* inputs,
                                                std::int64_t input_stride, const float* gradients,
                                                std::int64_t gradient_stride, bool add, float* sums,
                                                std::int64_t sum_stride) {
  static_assert(V::kWidth % std::int64_t{V::kGradientRows} == 0);
  const std::int64_t depth = shape.in_blocks * V::kWidth;
  const std::int64_t pairs = ceil_div(shape.out_blocks, std::int64_t{2});
  const std::int64_t i = part / pairs, out = part % pairs * 2;
  WinogradPanel panel;
  panel.inner = tiles;
  panel.right_column = tiles * V::kWidth;
  panel.to_column = depth * V::kWidth;
  panel.add = add;
  for (std::int64_t in = 0; in < depth; in += std::int64_t{V::kGradientRows}) {
    panel.left = inputs + i * input_stride + in / V::kWidth * tiles * V::kWidth + in % V::kWidth;
    panel.right = gradients + i * gradient_stride + out * panel.right_column;
    panel.to = sums + i * sum_stride + out * panel.to_column + in * V::kWidth;
    if (out + 1 < shape.out_blocks)
      multiply_lanes<V, 2>(panel);
    else
      multiply_lanes<V, 1>(panel);
  }
}

// For maps of such Elements.
template <typename V, typename Element>
WinogradKernel make_winograd_kernel() {
  return {.block = V::kWidth,
          .transform_weights = transform_weights<V>,
          .transform_input = transform_input<V, Element>,
          .multiply = multiply<V>,
          .transform_output = transform_output<V, Element>,
          .transform_gradient = transform_gradient<V, Element>,
          .multiply_gradient = multiply_gradient<V>,
          .transform_sums = transform_sums<V>};
}

}  // namespace ddpbench::ops::cpu
