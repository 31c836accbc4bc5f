// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd's transforms and matrix products, for as many channels at a time as a vector has.
//
// The transforms interpolate at the points 0, +a, -a, +b, -b and infinity (Lavin and Gray take a =
// 1, b = 2). With N_i the product of p_i - p_j over the other finite points:
//   A'[k][i] = p_i^k          G[i][k] = p_i^k / N_i        B'[i] = coefficients of the product of
//                                                                  x - p_j over the others
// at infinity 1 for the last k, and all finite p_j. a = 5/8, b = 3/2 are oneDNN 2's: their powers
// are of similar size, so roundings are enlarged less than by 1 and 2.
#ifndef DDPBENCH_LEVEL

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/math.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/ops/cpu/winograd.h"

namespace ddpbench::ops::cpu {
namespace {

constexpr float kA = 0.625F, kB = 1.5F;
constexpr float kA2 = kA * kA, kB2 = kB * kB;
constexpr float kN0 = kA2 * kB2, kNa = 2 * kA2 * (kA2 - kB2), kNb = 2 * kB2 * (kB2 - kA2);
constexpr float kScale[] = {1 / kN0, 1 / kNa, 1 / kNa, 1 / kNb, 1 / kNb, 1};

}  // namespace
}  // namespace ddpbench::ops::cpu

#define DDPBENCH_SOURCE "kernels/ops/cpu/winograd_loops.cpp"
#include "kernels/ops/cpu/lanes-inl.h"

namespace ddpbench::ops::cpu {

WinogradKernel winograd_kernel_avx512(DataType maps) {
  return maps == DataType::bf16 ? avx512::winograd_kernel<BFloat16>()
                                : avx512::winograd_kernel<float>();
}

WinogradKernel winograd_kernel_avx2() { return avx2::winograd_kernel<float>(); }

}  // namespace ddpbench::ops::cpu

#elif DDPBENCH_LANES > 1

namespace ddpbench::ops::cpu::DDPBENCH_LEVEL {

// The rows of two vectors each that registers hold as sums, in products of maps and of gradients:
// of 32 or 16 registers, two hold the weights and one the number that is broadcast.
constexpr std::size_t kRows = kWidth == 16 ? 14 : 6, kGradientRows = kWidth == 16 ? 8 : 4;

// `to` = B' `d`: 6 inputs.
DDPBENCH_INLINE void input_points(const Values (&d)[6], Values (&to)[6]) {
  const auto a = broadcast(kA), b = broadcast(kB);
  const auto a2 = broadcast(kA2), b2 = broadcast(kB2);
  const auto product = broadcast(kA2 * kB2), sum = broadcast(kA2 + kB2);
  to[0] = product * d[0] + (d[4] - sum * d[2]);
  const auto even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
  const auto even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
  to[1] = a * odd_a + even_a;
  to[2] = even_a - a * odd_a;
  to[3] = b * odd_b + even_b;
  to[4] = even_b - b * odd_b;
  to[5] = product * d[1] + (d[5] - sum * d[3]);
}

// `to` = A' `m`: 4 outputs.
DDPBENCH_INLINE void output_points(const Values (&m)[6], Values (&to)[4]) {
  const auto sum_a = m[1] + m[2], difference_a = m[1] - m[2];
  const auto sum_b = m[3] + m[4], difference_b = m[3] - m[4];
  to[0] = m[0] + (sum_a + sum_b);
  to[1] = broadcast(kA) * difference_a + (broadcast(kB) * difference_b);
  to[2] = broadcast(kA2) * sum_a + (broadcast(kB2) * sum_b);
  to[3] = broadcast(kA * kA2) * difference_a + (broadcast(kB * kB2) * difference_b + m[5]);
}

// `to` = N G `g`, not yet divided by N: 3 weights.
DDPBENCH_INLINE void weight_points(const Values (&g)[3], Values (&to)[6]) {
  const auto even_a = broadcast(kA2) * g[2] + g[0];
  const auto even_b = broadcast(kB2) * g[2] + g[0];
  to[0] = g[0];
  to[1] = broadcast(kA) * g[1] + even_a;
  to[2] = even_a - broadcast(kA) * g[1];
  to[3] = broadcast(kB) * g[1] + even_b;
  to[4] = even_b - broadcast(kB) * g[1];
  to[5] = g[2];
}

// `to` = N G4 `g`, not yet divided by N: 4 output gradients.
DDPBENCH_INLINE void gradient_points(const Values (&g)[4], Values (&to)[6]) {
  const auto even_a = broadcast(kA2) * g[2] + g[0];
  const auto odd_a = broadcast(kA2) * g[3] + g[1];
  const auto even_b = broadcast(kB2) * g[2] + g[0];
  const auto odd_b = broadcast(kB2) * g[3] + g[1];
  to[0] = g[0];
  to[1] = broadcast(kA) * odd_a + even_a;
  to[2] = even_a - broadcast(kA) * odd_a;
  to[3] = broadcast(kB) * odd_b + even_b;
  to[4] = even_b - broadcast(kB) * odd_b;
  to[5] = g[3];
}

// `to` = A3' `m`: 3 weight gradients.
DDPBENCH_INLINE void sum_points(const Values (&m)[6], Values (&to)[3]) {
  const auto sum_a = m[1] + m[2], sum_b = m[3] + m[4];
  to[0] = m[0] + (sum_a + sum_b);
  to[1] = broadcast(kA) * (m[1] - m[2]) + (broadcast(kB) * (m[3] - m[4]));
  to[2] = broadcast(kA2) * sum_a + (broadcast(kB2) * sum_b + m[5]);
}

// Goes through the tiles of one sample after the other.
struct WinogradWalk {
  std::int64_t sample, row, column;  // of tiles
};
inline WinogradWalk walk_from(const WinogradShape& s, std::int64_t tile) {
  const std::int64_t columns = s.tiles_w(), of_sample = s.tiles_h() * columns;
  return {tile / of_sample, tile % of_sample / columns, tile % columns};
}
inline void advance(const WinogradShape& s, WinogradWalk& walk) {
  if (++walk.column < s.tiles_w()) return;
  walk.column = 0;
  if (++walk.row < s.tiles_h()) return;
  walk.row = 0;
  ++walk.sample;
}

// Those of `count` positions from `origin` that lie in a map of `extent`.
struct WinogradRange {
  std::int64_t begin, end;
};
inline WinogradRange range_inside(std::int64_t origin, std::int64_t count, std::int64_t extent) {
  const std::int64_t room = extent - origin;
  return {origin < 0 ? -origin : 0, room < count ? (room < 0 ? 0 : room) : count};
}

// One tile of one block of channels; `map` is the block's map.
template <typename Element>
DDPBENCH_INLINE void transform_input_tile(const WinogradShape& s, const Element* map,
                                          const WinogradWalk& at, float* to, std::int64_t stride) {
  const std::int64_t top = at.row * kWinogradTile - s.pad_h;
  const std::int64_t left = at.column * kWinogradTile - s.pad_w;
  const WinogradRange rows = range_inside(top, 6, s.height);
  const WinogradRange columns = range_inside(left, 6, s.width);
  // Rows outside the map are read from zeros, so that no load depends on a condition.
  alignas(64) static constexpr Element kZeros[6 * kWidth] = {};
  const Element* row[6];
  for (std::int64_t i = 0; i < 6; ++i)
    row[i] = i >= rows.begin && i < rows.end
                 ? map + ((top + i) * s.width + left + columns.begin) * kWidth
                 : kZeros;
  Values half[6][6];
  for (std::int64_t j = 0; j < columns.begin; ++j)
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = Values{};
  for (std::int64_t j = columns.end; j < 6; ++j)
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = Values{};
  std::int64_t offset = 0;
#pragma GCC unroll 1
  for (std::int64_t j = columns.begin; j < columns.end; ++j, offset += kWidth) {
    Values d[6], points[6];
    for (std::int64_t i = 0; i < 6; ++i) d[i] = load(row[i] + offset);
    input_points(d, points);
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
  }
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < 6; ++i) {
    Values points[6];
    input_points(half[i], points);
    for (std::int64_t j = 0; j < 6; ++j) store(to + (6 * i + j) * stride, points[j]);
  }
}

template <typename Element>
void transform_input(const WinogradShape& shape, WinogradTiles tiles, const void* maps, float* to,
                     std::int64_t stride) {
  const auto* const x = static_cast<const Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.height * s.width * kWidth;
  for (std::int64_t c = 0; c < s.in_blocks; ++c) {
    WinogradWalk at = walk_from(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance(s, at), to += kWidth)
      transform_input_tile(s, x + (at.sample * s.in_blocks + c) * map, at, to, stride);
  }
}

template <typename Element>
void transform_output(const WinogradShape& shape, WinogradTiles tiles, const float* products,
                      std::int64_t stride, const float* bias, bool relu, void* maps) {
  auto* const y = static_cast<Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.out_h * s.out_w * kWidth;
  for (std::int64_t c = 0; c < s.out_blocks; ++c) {
    const auto offset = bias ? load(bias + c * kWidth) : Values{};
    WinogradWalk at = walk_from(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance(s, at), products += kWidth) {
      Values half[4][6];
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < 6; ++j) {
        Values m[6], outputs[4];
        for (std::int64_t i = 0; i < 6; ++i) m[i] = load(products + (6 * i + j) * stride);
        output_points(m, outputs);
        for (std::int64_t i = 0; i < 4; ++i) half[i][j] = outputs[i];
      }
      const std::int64_t top = at.row * kWinogradTile, left = at.column * kWinogradTile;
      const std::int64_t rows = range_inside(top, 4, s.out_h).end;
      const std::int64_t columns = range_inside(left, 4, s.out_w).end;
      Element* const corner =
          y + (at.sample * s.out_blocks + c) * map + (top * s.out_w + left) * kWidth;
#pragma GCC unroll 1
      for (std::int64_t i = 0; i < rows; ++i) {
        Values outputs[4];
        output_points(half[i], outputs);
        for (std::int64_t j = 0; j < 4; ++j) {
          const auto value = outputs[j] + offset;
          if (j < columns)
            store(corner + (i * s.out_w + j) * kWidth, relu ? rectified(value) : value);
        }
      }
    }
  }
}

template <typename Element>
void transform_gradient(const WinogradShape& shape, WinogradTiles tiles, const void* maps,
                        float* to, std::int64_t stride, float* bias_gradient) {
  const auto* const dy = static_cast<const Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.out_h * s.out_w * kWidth;
  for (std::int64_t c = 0; c < s.out_blocks; ++c) {
    auto total = Values{};
    WinogradWalk at = walk_from(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance(s, at), to += kWidth) {
      const std::int64_t top = at.row * kWinogradTile, left = at.column * kWinogradTile;
      const std::int64_t rows = range_inside(top, 4, s.out_h).end;
      const std::int64_t columns = range_inside(left, 4, s.out_w).end;
      const Element* const corner =
          dy + (at.sample * s.out_blocks + c) * map + (top * s.out_w + left) * kWidth;
      Values half[6][4];
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < 4; ++j) {
        Values g[4], points[6];
        for (std::int64_t i = 0; i < 4; ++i)
          g[i] = j < columns && i < rows ? load(corner + (i * s.out_w + j) * kWidth) : Values{};
        total = total + ((g[0] + g[1]) + (g[2] + g[3]));
        gradient_points(g, points);
        for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
      }
#pragma GCC unroll 1
      for (std::int64_t i = 0; i < 6; ++i) {
        Values points[6];
        gradient_points(half[i], points);
        for (std::int64_t j = 0; j < 6; ++j) store(to + (6 * i + j) * stride, points[j]);
      }
    }
    float* const sum = bias_gradient + c * kWidth;
    store(sum, load(sum) + total);
  }
}

// ---- weights and matrix products ----

// One lane of input channels of one block of weights, from [3][3][block] to 36 vectors.
inline void transform_weight_lane(const float* weights, float* to, std::int64_t stride) {
  constexpr std::int64_t kBlock = kWidth * kWidth;
  Values half[6][3];
  for (std::int64_t j = 0; j < 3; ++j) {
    Values g[3], points[6];
    for (std::int64_t i = 0; i < 3; ++i) g[i] = load(weights + (3 * i + j) * kBlock);
    weight_points(g, points);
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
  }
  for (std::int64_t i = 0; i < 6; ++i) {
    Values points[6];
    weight_points(half[i], points);
    for (std::int64_t j = 0; j < 6; ++j) {
      const auto scale = broadcast(kScale[i] * kScale[j]);
      store(to + (6 * i + j) * stride, scale * points[j]);
    }
  }
}

inline void transform_weights(const WinogradShape& shape, const float* weights, bool turned,
                              std::int64_t begin, std::int64_t end, float* to,
                              std::int64_t stride) {
  constexpr std::int64_t kBlock = kWidth * kWidth;
  const std::int64_t ins = shape.in_blocks, outs = shape.out_blocks;
  float kernel[std::size_t{9} * kWidth * kWidth];
  for (std::int64_t out = begin; out < end; ++out)
    for (std::int64_t in = 0; in < ins; ++in) {
      const float* from = weights + (out * ins + in) * 9 * kBlock;
      if (turned) {
        // [out lane][in lane] blocks of the input `out`: the roles of the channels are swapped.
        from = weights + (in * outs + out) * 9 * kBlock;
        for (std::int64_t k = 0; k < 9; ++k)
          blocked_to_maps(kWidth, kWidth, from + k * kBlock, kernel + (8 - k) * kBlock, kWidth);
        from = kernel;
      }
      for (std::int64_t lane = 0; lane < kWidth; ++lane)
        transform_weight_lane(from + lane * kWidth,
                              to + ((out * ins + in) * kWidth + lane) * kWidth, stride);
    }
}

// The sums of one lane of input channels of one block, transformed back.
inline void transform_sum_lane(const float* sums, std::int64_t stride, bool add, float* to) {
  constexpr std::int64_t kBlock = kWidth * kWidth;
  Values half[3][6];
  for (std::int64_t j = 0; j < 6; ++j) {
    Values m[6], gradients[3];
    for (std::int64_t i = 0; i < 6; ++i) {
      const auto scale = broadcast(kScale[i] * kScale[j]);
      m[i] = scale * load(sums + (6 * i + j) * stride);
    }
    sum_points(m, gradients);
    for (std::int64_t i = 0; i < 3; ++i) half[i][j] = gradients[i];
  }
  for (std::int64_t i = 0; i < 3; ++i) {
    Values gradients[3];
    sum_points(half[i], gradients);
    for (std::int64_t j = 0; j < 3; ++j) {
      float* const at = to + (3 * i + j) * kBlock;
      store(at, add ? load(at) + gradients[j] : gradients[j]);
    }
  }
}

inline void transform_sums(const WinogradShape& shape, const float* sums, std::int64_t stride,
                           bool add, std::int64_t begin, std::int64_t end, float* weight_gradient) {
  constexpr std::int64_t kBlock = kWidth * kWidth;
  for (std::int64_t block = begin * shape.in_blocks; block < end * shape.in_blocks; ++block)
    for (std::int64_t lane = 0; lane < kWidth; ++lane)
      transform_sum_lane(sums + (block * kWidth + lane) * kWidth, stride, add,
                         weight_gradient + block * 9 * kBlock + lane * kWidth);
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
template <std::size_t kColumns, std::int64_t kRowStride, std::int64_t kStepStride, std::size_t... I>
inline void multiply_panel(const WinogradPanel& p, std::index_sequence<I...>) {
  Values sum[] = {(p.add ? load(p.to + static_cast<std::int64_t>(I / kColumns) * kWidth +
                                static_cast<std::int64_t>(I % kColumns) * p.to_column)
                         : Values{})...};
  const float* right = p.right;
  const std::int64_t column = kColumns > 1 ? p.right_column : 0;
  for (std::int64_t outer = 0; outer < p.outer; ++outer) {
    const float* left = p.left + outer * p.left_outer;
    for (std::int64_t k = 0; k < p.inner; ++k, left += kStepStride, right += kWidth) {
      const Values factor[2] = {load(right), load(right + column)};
      ((sum[I] = broadcast(left[static_cast<std::int64_t>(I / kColumns) * kRowStride]) *
                     factor[I % kColumns] +
                 sum[I]),
       ...);
    }
  }
  (store(p.to + static_cast<std::int64_t>(I / kColumns) * kWidth +
             static_cast<std::int64_t>(I % kColumns) * p.to_column,
         sum[I]),
   ...);
}

// Multiplies kRows tiles.
template <std::size_t kRows, std::size_t kColumns>
void multiply_tiles(const WinogradPanel& panel) {
  multiply_panel<kColumns, kWidth, 1>(panel, std::make_index_sequence<kRows * kColumns>());
}

using MultiplyTiles = void (*)(const WinogradPanel& panel);
template <std::size_t kColumns, std::size_t... I>
constexpr std::array<MultiplyTiles, kRows + 1> tile_multipliers(std::index_sequence<I...>) {
  return {nullptr, multiply_tiles<I + 1, kColumns>...};
}

inline void multiply(const WinogradShape& shape, std::int64_t tiles, const float* inputs,
                     std::int64_t input_stride, const float* weights, std::int64_t weight_stride,
                     float* products, std::int64_t product_stride) {
  static constexpr auto kOne = tile_multipliers<1>(std::make_index_sequence<kRows>());
  static constexpr auto kTwo = tile_multipliers<2>(std::make_index_sequence<kRows>());
  const std::int64_t parts = ceil_div(tiles, kRows);  // of nearly equal sizes
  const std::int64_t depth = shape.in_blocks * kWidth;
  WinogradPanel panel;
  panel.left_outer = panel.to_column = tiles * kWidth;
  panel.outer = shape.in_blocks;
  panel.inner = kWidth;
  panel.right_column = depth * kWidth;
  for (std::int64_t i = 0; i < kWinogradProducts; ++i)
    for (std::int64_t out = 0; out < shape.out_blocks; out += 2)
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = tiles * part / parts, end = tiles * (part + 1) / parts;
        panel.left = inputs + i * input_stride + first * kWidth;
        panel.right = weights + i * weight_stride + out * panel.right_column;
        panel.to = products + i * product_stride + out * panel.to_column + first * kWidth;
        const auto& multipliers = out + 1 < shape.out_blocks ? kTwo : kOne;
        multipliers[static_cast<std::size_t>(end - first)](panel);
      }
}

template <std::size_t kColumns>
void multiply_lanes(const WinogradPanel& panel) {
  multiply_panel<kColumns, 1, kWidth>(panel, std::make_index_sequence<kGradientRows * kColumns>());
}

inline void multiply_gradient(const WinogradShape& shape, std::int64_t part, std::int64_t tiles,
                              const float* inputs, std::int64_t input_stride,
                              const float* gradients, std::int64_t gradient_stride, bool add,
                              float* sums, std::int64_t sum_stride) {
  static_assert(kWidth % std::int64_t{kGradientRows} == 0);
  const std::int64_t depth = shape.in_blocks * kWidth;
  const std::int64_t pairs = ceil_div(shape.out_blocks, std::int64_t{2});
  const std::int64_t i = part / pairs, out = part % pairs * 2;
  WinogradPanel panel;
  panel.inner = tiles;
  panel.right_column = tiles * kWidth;
  panel.to_column = depth * kWidth;
  panel.add = add;
  for (std::int64_t in = 0; in < depth; in += std::int64_t{kGradientRows}) {
    panel.left = inputs + i * input_stride + in / kWidth * tiles * kWidth + in % kWidth;
    panel.right = gradients + i * gradient_stride + out * panel.right_column;
    panel.to = sums + i * sum_stride + out * panel.to_column + in * kWidth;
    if (out + 1 < shape.out_blocks)
      multiply_lanes<2>(panel);
    else
      multiply_lanes<1>(panel);
  }
}

// For maps of such Elements.
template <typename Element>
WinogradKernel winograd_kernel() {
  return {.block = kWidth,
          .transform_weights = transform_weights,
          .transform_input = transform_input<Element>,
          .multiply = multiply,
          .transform_output = transform_output<Element>,
          .transform_gradient = transform_gradient<Element>,
          .multiply_gradient = multiply_gradient,
          .transform_sums = transform_sums};
}

}  // namespace ddpbench::ops::cpu::DDPBENCH_LEVEL

#endif
