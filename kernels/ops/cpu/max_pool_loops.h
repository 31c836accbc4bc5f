// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The max-pool loops. Each source that includes them compiles them for one instruction set.
//
// The source defines DDPBENCH_POOL_TARGET (the target attribute) before the include and
// instantiates make_pool_kernel<Vector>. Each Vector is a type of that source alone, so that
// instruction sets share no instantiation. A Vector has kWidth lanes and
//   Element         of the maps: float or BFloat16
//   Index           element type of the winners
//   load, store     of kWidth elements, as floats in registers; store rounds
//   Values, Codes   kWidth floats; kWidth winner codes in registers
//   challenge       takes the candidate and its code where it is NaN or greater than the best
//   rectify         relu(values); where values <= 0 the code becomes no_gradient
//   store_codes, load_codes
//   pick            grad where the code is the given one, else 0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/ops/cpu/max_pool.h"
#include "kernels/runtime/bfloat16.h"

namespace ddpbench::ops::cpu {

template <typename Index>
inline constexpr Index kNoGradient = std::numeric_limits<Index>::max();

// The rows (or columns) of one window inside the map, and the map index of the window's first one.
struct WindowRange {
  std::int64_t begin, end, origin;

  bool is_all(std::int64_t kernel) const { return begin == 0 && end == kernel; }
};
template <typename Vector>
DDPBENCH_POOL_TARGET inline WindowRange window_range(std::int64_t position, std::int64_t stride,
                                                     std::int64_t pad, std::int64_t kernel,
                                                     std::int64_t extent) {
  const std::int64_t origin = position * stride - pad;
  const std::int64_t begin = origin < 0 ? -origin : 0;
  const std::int64_t end = extent - origin < kernel ? extent - origin : kernel;
  return {begin, end, origin};
}

template <typename Vector>
DDPBENCH_POOL_TARGET inline void finish(const PoolGeometry& g, typename Vector::Values best,
                                        typename Vector::Codes codes, typename Vector::Element* y,
                                        typename Vector::Index* winners) {
  if (g.relu) Vector::rectify(best, codes);
  Vector::store(y, best);
  Vector::store_codes(winners, codes);
}

template <typename Vector>
DDPBENCH_POOL_TARGET void halving_forward(const PoolGeometry& geometry, const void* from, void* to,
                                          void* winners) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* x = static_cast<const typename Vector::Element*>(from);
  auto* y = static_cast<typename Vector::Element*>(to);
  auto* codes_out = static_cast<typename Vector::Index*>(winners);
  const std::int64_t row = g.width * g.inner;
  for (std::int64_t i = 0; i < g.out_h; ++i)
    for (std::int64_t j = 0; j < g.out_w; ++j) {
      const auto* corner = x + 2 * i * row + 2 * j * g.inner;
      for (std::int64_t c = 0; c < g.inner; c += Vector::kWidth) {
        typename Vector::Values best = Vector::load(corner + c);
        typename Vector::Codes codes = Vector::codes(0);
        Vector::challenge(best, codes, Vector::load(corner + c + g.inner), 1);
        Vector::challenge(best, codes, Vector::load(corner + c + row), 2);
        Vector::challenge(best, codes, Vector::load(corner + c + row + g.inner), 3);
        finish<Vector>(g, best, codes, y, codes_out);
        y += Vector::kWidth;
        codes_out += Vector::kWidth;
      }
    }
}

template <typename Vector>
DDPBENCH_POOL_TARGET void halving_backward(const PoolGeometry& geometry, const void* from,
                                           const void* winners, void* to) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* dy = static_cast<const typename Vector::Element*>(from);
  auto* dx = static_cast<typename Vector::Element*>(to);
  const auto* codes_in = static_cast<const typename Vector::Index*>(winners);
  const std::int64_t row = g.width * g.inner;
  for (std::int64_t i = 0; i < g.out_h; ++i) {
    auto* corner = dx + 2 * i * row;
    for (std::int64_t j = 0; j < g.out_w; ++j, corner += 2 * g.inner)
      for (std::int64_t c = 0; c < g.inner; c += Vector::kWidth) {
        const typename Vector::Values grad = Vector::load(dy);
        const typename Vector::Codes codes = Vector::load_codes(codes_in);
        Vector::store(corner + c, Vector::pick(grad, codes, 0));
        Vector::store(corner + c + g.inner, Vector::pick(grad, codes, 1));
        Vector::store(corner + c + row, Vector::pick(grad, codes, 2));
        Vector::store(corner + c + row + g.inner, Vector::pick(grad, codes, 3));
        dy += Vector::kWidth;
        codes_in += Vector::kWidth;
      }
    if (g.width % 2 != 0)  // the last column is in no window
      for (std::int64_t c = 0; c < g.inner; ++c) corner[c] = corner[row + c] = {};
  }
  if (g.height % 2 != 0) std::fill_n(dx + 2 * g.out_h * row, row, typename Vector::Element{});
}

// The largest value of each of kWidth channels in one window, whose map row has `row` elements and
// whose kernel has `kernel_w` columns, and its code. `origin` is the window's first element, which
// may lie before the map.
template <typename Vector>
DDPBENCH_POOL_TARGET __attribute__((always_inline)) inline void find_winners(
    WindowRange rows, WindowRange columns, std::int64_t kernel_w, std::int64_t row,
    std::int64_t inner, const typename Vector::Element* origin, typename Vector::Values& best,
    typename Vector::Codes& codes) {
  using Index = typename Vector::Index;
  // A window of -inf only keeps the first element's code, as in PyTorch.
  best = Vector::values(-std::numeric_limits<float>::infinity());
  codes = Vector::codes(static_cast<Index>(rows.begin * kernel_w + columns.begin));
#pragma GCC unroll 3
  for (std::int64_t p = rows.begin; p < rows.end; ++p)
#pragma GCC unroll 3
    for (std::int64_t q = columns.begin; q < columns.end; ++q)
      Vector::challenge(best, codes, Vector::load(origin + p * row + q * inner),
                        static_cast<Index>(p * kernel_w + q));
}

template <typename Vector>
DDPBENCH_POOL_TARGET void general_forward(const PoolGeometry& geometry, const void* from, void* to,
                                          void* winners) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* x = static_cast<const typename Vector::Element*>(from);
  auto* y = static_cast<typename Vector::Element*>(to);
  using Index = typename Vector::Index;
  auto* codes_out = static_cast<Index*>(winners);
  const std::int64_t row = g.width * g.inner;
  for (std::int64_t i = 0; i < g.out_h; ++i) {
    const WindowRange rows =
        window_range<Vector>(i, g.window.stride_h, g.window.pad_h, g.window.kernel_h, g.height);
    for (std::int64_t j = 0; j < g.out_w; ++j) {
      const WindowRange columns =
          window_range<Vector>(j, g.window.stride_w, g.window.pad_w, g.window.kernel_w, g.width);
      for (std::int64_t c = 0; c < g.inner; c += Vector::kWidth) {
        typename Vector::Values best;
        typename Vector::Codes codes;
        const auto* const origin = x + (rows.origin * g.width + columns.origin) * g.inner + c;
        // Loops of known length, as the pool of ResNets has, take 0.6 to 0.75 of the time.
        if (g.window.kernel_w == 3 && rows.is_all(3) && columns.is_all(3)) {
          find_winners<Vector>({0, 3, 0}, {0, 3, 0}, 3, row, g.inner, origin, best, codes);
        } else {
          find_winners<Vector>(rows, columns, g.window.kernel_w, row, g.inner, origin, best, codes);
        }
        finish<Vector>(g, best, codes, y, codes_out);
        y += Vector::kWidth;
        codes_out += Vector::kWidth;
      }
    }
  }
}

template <typename Vector>
DDPBENCH_POOL_TARGET void general_backward(const PoolGeometry& geometry, const void* from,
                                           const void* winners, void* to) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* dy = static_cast<const typename Vector::Element*>(from);
  auto* dx = static_cast<typename Vector::Element*>(to);
  using Index = typename Vector::Index;
  const auto* codes_in = static_cast<const Index*>(winners);
  std::fill_n(dx, g.input_elements(), typename Vector::Element{});
  for (std::int64_t i = 0; i < g.out_h; ++i) {
    const WindowRange rows =
        window_range<Vector>(i, g.window.stride_h, g.window.pad_h, g.window.kernel_h, g.height);
    for (std::int64_t j = 0; j < g.out_w; ++j) {
      const WindowRange columns =
          window_range<Vector>(j, g.window.stride_w, g.window.pad_w, g.window.kernel_w, g.width);
      for (std::int64_t c = 0; c < g.inner; c += Vector::kWidth) {
        const typename Vector::Values grad = Vector::load(dy);
        const typename Vector::Codes codes = Vector::load_codes(codes_in);
        for (std::int64_t p = rows.begin; p < rows.end; ++p)
          for (std::int64_t q = columns.begin; q < columns.end; ++q) {
            auto* at = dx + ((rows.origin + p) * g.width + columns.origin + q) * g.inner + c;
            const auto picked =
                Vector::pick(grad, codes, static_cast<Index>(p * g.window.kernel_w + q));
            Vector::store(at, Vector::plus(Vector::load(at), picked));
          }
        dy += Vector::kWidth;
        codes_in += Vector::kWidth;
      }
    }
  }
}

template <typename Vector>
PoolKernel make_pool_kernel(bool halving) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(typename Vector::Index));
  if (halving) return {halving_forward<Vector>, halving_backward<Vector>, kBytes};
  return {general_forward<Vector>, general_backward<Vector>, kBytes};
}

}  // namespace ddpbench::ops::cpu
