// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Winograd's transforms. Each source that includes them compiles them for one instruction set: it
// defines DDPBENCH_WINOGRAD_TARGET (the target attribute) before the include, and passes Vector, a
// type of that source alone, so that instruction sets share no instantiation. A Vector has kWidth
// lanes and Values, zero, broadcast, load, store, add, sub, mul, rectify and
//   fma(a, b, c) = a * b + c      fnma(a, b, c) = c - a * b
// load and store also take the Elements of maps that the Vector is used for: float or BFloat16.
//
// The transforms interpolate at the points 0, +a, -a, +b, -b and infinity (Lavin and Gray take a =
// 1, b = 2). With N_i the product of p_i - p_j over the other finite points:
//   A'[k][i] = p_i^k          G[i][k] = p_i^k / N_i        B'[i] = coefficients of the product of
//                                                                  x - p_j over the others
// at infinity 1 for the last k, and all finite p_j. a = 5/8, b = 3/2 are oneDNN 2's: their powers
// are of similar size, so roundings are enlarged less than by 1 and 2.
#pragma once

#include <cstdint>

#include "kernels/ops/cpu/winograd.h"

namespace ddpbench::ops::cpu {

#define DDPBENCH_WINOGRAD_INLINE DDPBENCH_WINOGRAD_TARGET inline

namespace winograd {
inline constexpr float kA = 0.625F, kB = 1.5F;
inline constexpr float kA2 = kA * kA, kB2 = kB * kB;
inline constexpr float kN0 = kA2 * kB2, kNa = 2 * kA2 * (kA2 - kB2), kNb = 2 * kB2 * (kB2 - kA2);
inline constexpr float kScale[kWinogradPoints] = {1 / kN0, 1 / kNa, 1 / kNa, 1 / kNb, 1 / kNb, 1};
}  // namespace winograd

// `to` = B' `d`: 6 inputs.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void input_points(const typename V::Values (&d)[6],
                                           typename V::Values (&to)[6]) {
  using namespace winograd;
  const auto a = V::broadcast(kA), b = V::broadcast(kB);
  const auto a2 = V::broadcast(kA2), b2 = V::broadcast(kB2);
  const auto product = V::broadcast(kA2 * kB2), sum = V::broadcast(kA2 + kB2);
  to[0] = V::fma(product, d[0], V::fnma(sum, d[2], d[4]));
  const auto even_a = V::fnma(b2, d[2], d[4]), odd_a = V::fnma(b2, d[1], d[3]);
  const auto even_b = V::fnma(a2, d[2], d[4]), odd_b = V::fnma(a2, d[1], d[3]);
  to[1] = V::fma(a, odd_a, even_a);
  to[2] = V::fnma(a, odd_a, even_a);
  to[3] = V::fma(b, odd_b, even_b);
  to[4] = V::fnma(b, odd_b, even_b);
  to[5] = V::fma(product, d[1], V::fnma(sum, d[3], d[5]));
}

// `to` = A' `m`: 4 outputs.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void output_points(const typename V::Values (&m)[6],
                                            typename V::Values (&to)[4]) {
  using namespace winograd;
  const auto sum_a = V::add(m[1], m[2]), difference_a = V::sub(m[1], m[2]);
  const auto sum_b = V::add(m[3], m[4]), difference_b = V::sub(m[3], m[4]);
  to[0] = V::add(m[0], V::add(sum_a, sum_b));
  to[1] = V::fma(V::broadcast(kA), difference_a, V::mul(V::broadcast(kB), difference_b));
  to[2] = V::fma(V::broadcast(kA2), sum_a, V::mul(V::broadcast(kB2), sum_b));
  to[3] = V::fma(V::broadcast(kA * kA2), difference_a,
                 V::fma(V::broadcast(kB * kB2), difference_b, m[5]));
}

// `to` = N G `g`, not yet divided by N: 3 weights.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void weight_points(const typename V::Values (&g)[3],
                                            typename V::Values (&to)[6]) {
  using namespace winograd;
  const auto even_a = V::fma(V::broadcast(kA2), g[2], g[0]);
  const auto even_b = V::fma(V::broadcast(kB2), g[2], g[0]);
  to[0] = g[0];
  to[1] = V::fma(V::broadcast(kA), g[1], even_a);
  to[2] = V::fnma(V::broadcast(kA), g[1], even_a);
  to[3] = V::fma(V::broadcast(kB), g[1], even_b);
  to[4] = V::fnma(V::broadcast(kB), g[1], even_b);
  to[5] = g[2];
}

// `to` = N G4 `g`, not yet divided by N: 4 output gradients.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void gradient_points(const typename V::Values (&g)[4],
                                              typename V::Values (&to)[6]) {
  using namespace winograd;
  const auto even_a = V::fma(V::broadcast(kA2), g[2], g[0]);
  const auto odd_a = V::fma(V::broadcast(kA2), g[3], g[1]);
  const auto even_b = V::fma(V::broadcast(kB2), g[2], g[0]);
  const auto odd_b = V::fma(V::broadcast(kB2), g[3], g[1]);
  to[0] = g[0];
  to[1] = V::fma(V::broadcast(kA), odd_a, even_a);
  to[2] = V::fnma(V::broadcast(kA), odd_a, even_a);
  to[3] = V::fma(V::broadcast(kB), odd_b, even_b);
  to[4] = V::fnma(V::broadcast(kB), odd_b, even_b);
  to[5] = g[3];
}

// `to` = A3' `m`: 3 weight gradients.
template <typename V>
DDPBENCH_WINOGRAD_INLINE void sum_points(const typename V::Values (&m)[6],
                                         typename V::Values (&to)[3]) {
  using namespace winograd;
  const auto sum_a = V::add(m[1], m[2]), sum_b = V::add(m[3], m[4]);
  to[0] = V::add(m[0], V::add(sum_a, sum_b));
  to[1] =
      V::fma(V::broadcast(kA), V::sub(m[1], m[2]), V::mul(V::broadcast(kB), V::sub(m[3], m[4])));
  to[2] = V::fma(V::broadcast(kA2), sum_a, V::fma(V::broadcast(kB2), sum_b, m[5]));
}

// Goes through the tiles of one sample after the other.
struct WinogradWalk {
  std::int64_t sample, row, column;  // of tiles
};
template <typename V>
DDPBENCH_WINOGRAD_INLINE WinogradWalk walk_from(const WinogradShape& s, std::int64_t tile) {
  const std::int64_t columns = s.tiles_w(), of_sample = s.tiles_h() * columns;
  return {tile / of_sample, tile % of_sample / columns, tile % columns};
}
template <typename V>
DDPBENCH_WINOGRAD_INLINE void advance(const WinogradShape& s, WinogradWalk& walk) {
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
template <typename V>
DDPBENCH_WINOGRAD_INLINE WinogradRange range_inside(std::int64_t origin, std::int64_t count,
                                                    std::int64_t extent) {
  const std::int64_t room = extent - origin;
  return {origin < 0 ? -origin : 0, room < count ? (room < 0 ? 0 : room) : count};
}

// One tile of one block of channels; `map` is the block's map.
template <typename V, typename Element>
DDPBENCH_WINOGRAD_INLINE void transform_input_tile(const WinogradShape& s, const Element* map,
                                                   const WinogradWalk& at, float* to,
                                                   std::int64_t stride) {
  const std::int64_t top = at.row * kWinogradTile - s.pad_h;
  const std::int64_t left = at.column * kWinogradTile - s.pad_w;
  const WinogradRange rows = range_inside<V>(top, 6, s.height);
  const WinogradRange columns = range_inside<V>(left, 6, s.width);
  // Rows outside the map are read from zeros, so that no load depends on a condition.
  alignas(64) static constexpr Element kZeros[6 * V::kWidth] = {};
  const Element* row[6];
  for (std::int64_t i = 0; i < 6; ++i)
    row[i] = i >= rows.begin && i < rows.end
                 ? map + ((top + i) * s.width + left + columns.begin) * V::kWidth
                 : kZeros;
  typename V::Values half[6][6];
  for (std::int64_t j = 0; j < columns.begin; ++j)
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = V::zero();
  for (std::int64_t j = columns.end; j < 6; ++j)
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = V::zero();
  std::int64_t offset = 0;
#pragma GCC unroll 1
  for (std::int64_t j = columns.begin; j < columns.end; ++j, offset += V::kWidth) {
    typename V::Values d[6], points[6];
    for (std::int64_t i = 0; i < 6; ++i) d[i] = V::load(row[i] + offset);
    input_points<V>(d, points);
    for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
  }
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < 6; ++i) {
    typename V::Values points[6];
    input_points<V>(half[i], points);
    for (std::int64_t j = 0; j < 6; ++j) V::store(to + (6 * i + j) * stride, points[j]);
  }
}

template <typename V, typename Element>
DDPBENCH_WINOGRAD_TARGET void transform_input(const WinogradShape& shape, WinogradTiles tiles,
                                              const void* maps, float* to, std::int64_t stride) {
  const auto* const x = static_cast<const Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.height * s.width * V::kWidth;
  for (std::int64_t c = 0; c < s.in_blocks; ++c) {
    WinogradWalk at = walk_from<V>(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance<V>(s, at), to += V::kWidth)
      transform_input_tile<V>(s, x + (at.sample * s.in_blocks + c) * map, at, to, stride);
  }
}

template <typename V, typename Element>
DDPBENCH_WINOGRAD_TARGET void transform_output(const WinogradShape& shape, WinogradTiles tiles,
                                               const float* products, std::int64_t stride,
                                               const float* bias, bool relu, void* maps) {
  auto* const y = static_cast<Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.out_h * s.out_w * V::kWidth;
  for (std::int64_t c = 0; c < s.out_blocks; ++c) {
    const auto offset = bias ? V::load(bias + c * V::kWidth) : V::zero();
    WinogradWalk at = walk_from<V>(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance<V>(s, at), products += V::kWidth) {
      typename V::Values half[4][6];
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < 6; ++j) {
        typename V::Values m[6], outputs[4];
        for (std::int64_t i = 0; i < 6; ++i) m[i] = V::load(products + (6 * i + j) * stride);
        output_points<V>(m, outputs);
        for (std::int64_t i = 0; i < 4; ++i) half[i][j] = outputs[i];
      }
      const std::int64_t top = at.row * kWinogradTile, left = at.column * kWinogradTile;
      const std::int64_t rows = range_inside<V>(top, 4, s.out_h).end;
      const std::int64_t columns = range_inside<V>(left, 4, s.out_w).end;
      Element* const corner =
          y + (at.sample * s.out_blocks + c) * map + (top * s.out_w + left) * V::kWidth;
#pragma GCC unroll 1
      for (std::int64_t i = 0; i < rows; ++i) {
        typename V::Values outputs[4];
        output_points<V>(half[i], outputs);
        for (std::int64_t j = 0; j < 4; ++j) {
          const auto value = V::add(outputs[j], offset);
          if (j < columns)
            V::store(corner + (i * s.out_w + j) * V::kWidth, relu ? V::rectify(value) : value);
        }
      }
    }
  }
}

template <typename V, typename Element>
DDPBENCH_WINOGRAD_TARGET void transform_gradient(const WinogradShape& shape, WinogradTiles tiles,
                                                 const void* maps, float* to, std::int64_t stride,
                                                 float* bias_gradient) {
  const auto* const dy = static_cast<const Element*>(maps);
  const WinogradShape s = shape;  // a copy that stores cannot alias
  const std::int64_t map = s.out_h * s.out_w * V::kWidth;
  for (std::int64_t c = 0; c < s.out_blocks; ++c) {
    auto total = V::zero();
    WinogradWalk at = walk_from<V>(s, tiles.first);
    for (std::int64_t t = 0; t < tiles.count; ++t, advance<V>(s, at), to += V::kWidth) {
      const std::int64_t top = at.row * kWinogradTile, left = at.column * kWinogradTile;
      const std::int64_t rows = range_inside<V>(top, 4, s.out_h).end;
      const std::int64_t columns = range_inside<V>(left, 4, s.out_w).end;
      const Element* const corner =
          dy + (at.sample * s.out_blocks + c) * map + (top * s.out_w + left) * V::kWidth;
      typename V::Values half[6][4];
#pragma GCC unroll 1
      for (std::int64_t j = 0; j < 4; ++j) {
        typename V::Values g[4], points[6];
        for (std::int64_t i = 0; i < 4; ++i)
          g[i] =
              j < columns && i < rows ? V::load(corner + (i * s.out_w + j) * V::kWidth) : V::zero();
        total = V::add(total, V::add(V::add(g[0], g[1]), V::add(g[2], g[3])));
        gradient_points<V>(g, points);
        for (std::int64_t i = 0; i < 6; ++i) half[i][j] = points[i];
      }
#pragma GCC unroll 1
      for (std::int64_t i = 0; i < 6; ++i) {
        typename V::Values points[6];
        gradient_points<V>(half[i], points);
        for (std::int64_t j = 0; j < 6; ++j) V::store(to + (6 * i + j) * stride, points[j]);
      }
    }
    float* const sum = bias_gradient + c * V::kWidth;
    V::store(sum, V::add(V::load(sum), total));
  }
}

}  // namespace ddpbench::ops::cpu
