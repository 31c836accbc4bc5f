// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The max-pool loops, for as many channels at a time as a vector has.
#ifndef DDPBENCH_LEVEL

#include "kernels/ops/cpu/max_pool.h"

#include <algorithm>
#include <limits>

#define DDPBENCH_SOURCE "kernels/ops/cpu/max_pool.cpp"
#include "kernels/ops/cpu/lanes-inl.h"

namespace ddpbench::ops::cpu {

PoolKernel pool_kernel(SimdLevel level, bool halving, DataType type) {
  const bool bf16 = type == DataType::bf16;
  if (level == SimdLevel::avx2) return avx2::pool_kernel<float, std::uint8_t>(halving);
  if (level == SimdLevel::avx512)
    return bf16 ? avx512::pool_kernel<BFloat16, std::uint8_t>(halving)
                : avx512::pool_kernel<float, std::uint8_t>(halving);
  return bf16 ? portable::pool_kernel<BFloat16, std::uint8_t>(halving)
              : portable::pool_kernel<float, std::uint8_t>(halving);
}

PoolKernel choose_pool_kernel(const PoolGeometry& geometry, SimdLevel level, DataType type) {
  // Code 255 means "no gradient", so a byte can number 255 elements.
  if (geometry.window.kernel_h * geometry.window.kernel_w > 255) {
    return type == DataType::bf16 ? portable::pool_kernel<BFloat16, std::uint32_t>(false)
                                  : portable::pool_kernel<float, std::uint32_t>(false);
  }
  const bool has_avx2 = type == DataType::fp32 && geometry.inner % 8 == 0;
  if (level == SimdLevel::avx512 && geometry.inner % 16 != 0) level = SimdLevel::avx2;
  if (level == SimdLevel::avx2 && !has_avx2) level = SimdLevel::portable;
  return pool_kernel(level, geometry.is_halving(), type);
}

}  // namespace ddpbench::ops::cpu

#else

namespace ddpbench::ops::cpu::DDPBENCH_LEVEL {

template <typename Index>
constexpr Index kNoGradient = std::numeric_limits<Index>::max();

// Codes are those of winners; in registers they have 32 bits, as the comparisons of floats.
// Conversions of bytes are intrinsics, because GCC 12 takes __builtin_convertvector's apart.
#if DDPBENCH_LANES == 16

using Codes = std::int32_t __attribute__((vector_size(64)));
inline Codes load_codes(const std::uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<Codes>(_mm512_cvtepu8_epi32(bytes));
}
inline void store_codes(std::uint8_t* to, Codes codes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(reinterpret_cast<__m512i>(codes)));
}

#elif DDPBENCH_LANES == 8

using Codes = std::int32_t __attribute__((vector_size(32)));
inline Codes load_codes(const std::uint8_t* from) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return reinterpret_cast<Codes>(_mm256_cvtepu8_epi32(bytes));
}
inline void store_codes(std::uint8_t* to, Codes codes) {
  const auto all = reinterpret_cast<__m256i>(codes);
  const __m128i words =
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

#else

using Codes = std::int32_t;
template <typename Index>
inline Codes load_codes(const Index* from) {
  return static_cast<Codes>(*from);
}
template <typename Index>
inline void store_codes(Index* to, Codes code) {
  *to = static_cast<Index>(code);
}

#endif

DDPBENCH_INLINE Codes codes_of(int code) { return Codes{} + code; }
// Takes the candidate and its code where it is NaN or greater than the best.
DDPBENCH_INLINE void challenge(Values& best, Codes& codes, Values candidate, int code) {
  const auto wins = (candidate > best) | (candidate != candidate);
  best = wins ? candidate : best;
  codes = wins ? codes_of(code) : codes;
}
// Sets the code where the value is not positive.
DDPBENCH_INLINE void cut(Values values, Codes& codes, int code) {
  codes = values <= 0 ? codes_of(code) : codes;
}
// The gradient where the code is `code`.
DDPBENCH_INLINE Values pick(Values grad, Codes codes, int code) {
  return codes == codes_of(code) ? grad : Values{};
}

template <typename Element, typename Index>
inline void finish(bool relu, Values best, Codes codes, Element* y, Index* winners) {
  if (relu) {
    cut(best, codes, static_cast<int>(kNoGradient<Index>));
    best = rectified(best);
  }
  store(y, best);
  store_codes(winners, codes);
}

template <typename Element, typename Index>
void halving_forward(const PoolGeometry& geometry, const void* from, void* to, void* winners) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* x = static_cast<const Element*>(from);
  auto* y = static_cast<Element*>(to);
  auto* codes_out = static_cast<Index*>(winners);
  const std::int64_t row = g.width * g.inner;
  for (std::int64_t i = 0; i < g.out_h; ++i)
    for (std::int64_t j = 0; j < g.out_w; ++j) {
      const auto* corner = x + 2 * i * row + 2 * j * g.inner;
      for (std::int64_t c = 0; c < g.inner; c += kWidth, y += kWidth, codes_out += kWidth) {
        Values best = load(corner + c);
        Codes codes = codes_of(0);
        challenge(best, codes, load(corner + c + g.inner), 1);
        challenge(best, codes, load(corner + c + row), 2);
        challenge(best, codes, load(corner + c + row + g.inner), 3);
        finish(g.relu, best, codes, y, codes_out);
      }
    }
}

template <typename Element, typename Index>
void halving_backward(const PoolGeometry& geometry, const void* from, const void* winners,
                      void* to) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* dy = static_cast<const Element*>(from);
  auto* dx = static_cast<Element*>(to);
  const auto* codes_in = static_cast<const Index*>(winners);
  const std::int64_t row = g.width * g.inner;
  for (std::int64_t i = 0; i < g.out_h; ++i) {
    auto* corner = dx + 2 * i * row;
    for (std::int64_t j = 0; j < g.out_w; ++j, corner += 2 * g.inner)
      for (std::int64_t c = 0; c < g.inner; c += kWidth, dy += kWidth, codes_in += kWidth) {
        const Values grad = load(dy);
        const Codes codes = load_codes(codes_in);
        store(corner + c, pick(grad, codes, 0));
        store(corner + c + g.inner, pick(grad, codes, 1));
        store(corner + c + row, pick(grad, codes, 2));
        store(corner + c + row + g.inner, pick(grad, codes, 3));
      }
    if (g.width % 2 != 0)  // the last column is in no window
      for (std::int64_t c = 0; c < g.inner; ++c) corner[c] = corner[row + c] = {};
  }
  if (g.height % 2 != 0) std::fill_n(dx + 2 * g.out_h * row, row, Element{});
}

// The rows (or columns) of one window inside the map, and the map index of the window's first one.
struct WindowRange {
  std::int64_t begin, end, origin;

  bool is_all(std::int64_t kernel) const { return begin == 0 && end == kernel; }
};
DDPBENCH_INLINE WindowRange window_range(std::int64_t position, std::int64_t stride,
                                         std::int64_t pad, std::int64_t kernel,
                                         std::int64_t extent) {
  const std::int64_t origin = position * stride - pad;
  const std::int64_t begin = origin < 0 ? -origin : 0;
  const std::int64_t end = extent - origin < kernel ? extent - origin : kernel;
  return {begin, end, origin};
}

// Calls body(rows, columns, first channel, output's index) for each output's vectors.
template <typename Body>
DDPBENCH_INLINE void for_each_window(const PoolGeometry& g, const Body& body) {
  const Window2d& w = g.window;
  std::int64_t out = 0;
  for (std::int64_t i = 0; i < g.out_h; ++i) {
    const WindowRange rows = window_range(i, w.stride_h, w.pad_h, w.kernel_h, g.height);
    for (std::int64_t j = 0; j < g.out_w; ++j) {
      const WindowRange columns = window_range(j, w.stride_w, w.pad_w, w.kernel_w, g.width);
      for (std::int64_t c = 0; c < g.inner; c += kWidth, out += kWidth) body(rows, columns, c, out);
    }
  }
}

// The largest value of each channel in one window, whose map row has `row` elements and whose
// kernel has `kernel_w` columns, and its code. `origin` is the window's first element, which may
// lie before the map.
template <typename Element>
DDPBENCH_INLINE void find_winners(WindowRange rows, WindowRange columns, std::int64_t kernel_w,
                                  std::int64_t row, std::int64_t inner, const Element* origin,
                                  Values& best, Codes& codes) {
  // A window of -inf only keeps the first element's code, as in PyTorch.
  best = broadcast(-std::numeric_limits<float>::infinity());
  codes = codes_of(static_cast<int>(rows.begin * kernel_w + columns.begin));
#pragma GCC unroll 3
  for (std::int64_t p = rows.begin; p < rows.end; ++p)
#pragma GCC unroll 3
    for (std::int64_t q = columns.begin; q < columns.end; ++q)
      challenge(best, codes, load(origin + p * row + q * inner),
                static_cast<int>(p * kernel_w + q));
}

template <typename Element, typename Index>
void general_forward(const PoolGeometry& geometry, const void* from, void* to, void* winners) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* x = static_cast<const Element*>(from);
  auto* y = static_cast<Element*>(to);
  auto* codes_out = static_cast<Index*>(winners);
  const std::int64_t row = g.width * g.inner, kernel_w = g.window.kernel_w;
  for_each_window(
      g, [&](WindowRange rows, WindowRange columns, std::int64_t c,
             std::int64_t out) __attribute__((always_inline)) {
        Values best;
        Codes codes;
        const auto* const origin = x + (rows.origin * g.width + columns.origin) * g.inner + c;
        // Loops of known length, as the pool of ResNets has, take 0.6 to 0.75 of the time.
        if (kernel_w == 3 && rows.is_all(3) && columns.is_all(3)) {
          find_winners({0, 3, 0}, {0, 3, 0}, 3, row, g.inner, origin, best, codes);
        } else {
          find_winners(rows, columns, kernel_w, row, g.inner, origin, best, codes);
        }
        finish(g.relu, best, codes, y + out, codes_out + out);
      });
}

template <typename Element, typename Index>
void general_backward(const PoolGeometry& geometry, const void* from, const void* winners,
                      void* to) {
  const PoolGeometry g = geometry;  // a copy that stores cannot alias
  const auto* dy = static_cast<const Element*>(from);
  auto* dx = static_cast<Element*>(to);
  const auto* codes_in = static_cast<const Index*>(winners);
  std::fill_n(dx, g.input_elements(), Element{});
  for_each_window(
      g, [&](WindowRange rows, WindowRange columns, std::int64_t c,
             std::int64_t out) __attribute__((always_inline)) {
        const Values grad = load(dy + out);
        const Codes codes = load_codes(codes_in + out);
        for (std::int64_t p = rows.begin; p < rows.end; ++p)
          for (std::int64_t q = columns.begin; q < columns.end; ++q) {
            auto* at = dx + ((rows.origin + p) * g.width + columns.origin + q) * g.inner + c;
            store(at, load(at) + pick(grad, codes, static_cast<int>(p * g.window.kernel_w + q)));
          }
      });
}

template <typename Element, typename Index>
PoolKernel pool_kernel(bool halving) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(Index));
  if (halving) return {halving_forward<Element, Index>, halving_backward<Element, Index>, kBytes};
  return {general_forward<Element, Index>, general_backward<Element, Index>, kBytes};
}

}  // namespace ddpbench::ops::cpu::DDPBENCH_LEVEL

#endif
