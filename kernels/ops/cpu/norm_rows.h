// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The maps that batch norm passes over, and how the passes (batch_norm.cpp) walk over them.
//
// All passes walk over strips: the maps of one sample's group of channels, as rows of 16 values.
// The lanes of a row belong to one channel (plain), to two rounds of 8 channels, or to 16 channels.
// Rows are GCC's vector type, which the compiler maps to the registers of each instruction set.
//
// With the channels last, a row of a strip is part of a cache line, and the next one lies a pixel
// further. Passes but the statistics therefore walk over short strips, those of neighbouring
// channels one after the other, so that lines come from memory once.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "kernels/ops/cpu/cpu_ops.h"
#include "kernels/runtime/bfloat16.h"
#include "kernels/runtime/data_type.h"

namespace ddpbench::ops::cpu {

// Maps [batch, channels, pixels]. `inner` channels of a pixel lie together: 1 (plain), 8 and 16
// (blocked, where channels are padded with zeros), or all of them (channels last).
struct NormMaps {
  std::int64_t batch = 0, channels = 0, pixels = 0, inner = 1;
  DataType type = DataType::fp32;

  std::int64_t partial_count() const { return 2 * batch * channels; }
  double values() const { return static_cast<double>(batch * pixels); }  // of a channel
};

inline constexpr int kLanes = 16;
// How far ahead of a row, at least, the caches are asked for another of its strip: a page, at whose
// end the processor's own prefetch ends. It saves 2 to 3 % of these passes' time (Zen 5).
inline constexpr std::int64_t kPrefetchBytes = 4096;
using NormRow = float __attribute__((vector_size(kLanes * sizeof(float))));
// In memory, of any alignment.
using StoredRow =
    float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));
// The same of bf16, and the bits of a row.
using NormBits = std::uint32_t __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));
using HalfBits = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t))));
using StoredHalves = std::uint16_t __attribute__((vector_size(kLanes * sizeof(std::uint16_t)),
                                                  aligned(alignof(std::uint16_t)), may_alias));
using LaneSums = std::array<double, kLanes>;

struct NormStrip {
  std::int64_t offset = 0;          // of its first value
  std::int64_t rows = 0, step = 0;  // whole rows, and the distance from one to the next
  int width = kLanes;               // values of a row
  int tail = 0;                     // values behind the last row
  int period = 1;                   // lane l has channel first + l % period
  std::int64_t sample = 0, first = 0;
  bool continues = false;  // another strip has the rows before, and so their sums

  int channels(const NormMaps& maps) const {
    return static_cast<int>(std::min<std::int64_t>(period, maps.channels - first));
  }
  // From a row to the one that is prefetched with it.
  std::int64_t ahead(const NormMaps& maps) const {
    const auto bytes = static_cast<std::int64_t>(size_of(maps.type)) * step;
    return ceil_div(kPrefetchBytes, bytes) * step;
  }
};

inline bool is_channels_last(const NormMaps& maps) {
  return maps.inner == maps.channels && maps.inner != 1 && maps.inner != 8 && maps.inner != 16;
}

inline std::int64_t strip_count(const NormMaps& maps) {
  const std::int64_t group = is_channels_last(maps) ? kLanes : maps.inner;
  return maps.batch * ceil_div(maps.channels, group);
}

inline NormStrip strip_at(const NormMaps& maps, std::int64_t index) {
  NormStrip strip;
  if (is_channels_last(maps)) {
    const std::int64_t groups = ceil_div(maps.channels, std::int64_t{kLanes});
    strip.sample = index / groups;
    strip.first = index % groups * kLanes;
    strip.offset = strip.sample * maps.pixels * maps.channels + strip.first;
    strip.rows = maps.pixels;
    strip.step = maps.channels;
    strip.width = static_cast<int>(std::min<std::int64_t>(kLanes, maps.channels - strip.first));
    strip.period = kLanes;
    return strip;
  }
  const std::int64_t groups = ceil_div(maps.channels, maps.inner);
  const std::int64_t elements = maps.pixels * maps.inner;
  strip.sample = index / groups;
  strip.first = index % groups * maps.inner;
  strip.offset = index * elements;
  strip.rows = elements / kLanes;
  strip.step = kLanes;
  strip.tail = static_cast<int>(elements % kLanes);
  strip.period = static_cast<int>(maps.inner);
  return strip;
}

// Small maps are not worth waking the team.
inline int threads_for(Team team, const NormMaps& maps) {
  const std::int64_t elements = maps.batch * maps.channels * maps.pixels;
  return elements < kMinParallelElements ? 1 : team.threads;
}

// Calls body(i) for all i below `count`. What it streams (stream_full_row) all threads see
// afterwards.
template <typename Body>
void for_each_index(Team team, const NormMaps& maps, std::int64_t count, const Body& body) {
  const int threads = threads_for(team, maps);
  parallel_shares(threads, count, 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
    _mm_sfence();
  });
}

template <typename Body>
void for_each_strip(Team team, const NormMaps& maps, const Body& body) {
  for_each_index(team, maps, strip_count(maps), [&](std::int64_t i) { body(strip_at(maps, i)); });
}

// Rows that are added up in single precision before their sum goes into a double: each rounding is
// then of a sum of at most so many values.
inline constexpr std::int64_t kChunk = 128;
inline constexpr std::uintptr_t kStreamAlignment = 16;
// Rows of neighbouring channels that are visited together: 256 bytes in bf16.
inline constexpr std::int64_t kBand = 8;

// The same in an order that suits the memory. Strips may be parts of strip_at()'s; those that
// continue one another come in order, on one thread.
template <typename Body>
void for_each_part(Team team, const NormMaps& maps, const Body& body) {
  if (!is_channels_last(maps)) return for_each_strip(team, maps, body);
  const std::int64_t groups = ceil_div(maps.channels, std::int64_t{kLanes});
  const std::int64_t bands = ceil_div(groups, kBand);
  const auto visit = [&](std::int64_t sample, std::int64_t band) {
    const std::int64_t end = std::min(groups, (band + 1) * kBand);
    for (std::int64_t row = 0; row < maps.pixels; row += kChunk) {
      for (std::int64_t group = band * kBand; group < end; ++group) {
        NormStrip strip = strip_at(maps, sample * groups + group);
        strip.offset += row * strip.step;
        strip.rows = std::min(kChunk, strip.rows - row);
        strip.continues = row > 0;
        body(strip);
      }
    }
  };
  for_each_index(team, maps, maps.batch * bands,
                 [&](std::int64_t i) { visit(i / bands, i % bands); });
}

// One value a lane, from one a channel. LaneSums of padding have 0.
struct LaneFactors {
  alignas(kLanes * sizeof(float)) float lanes[kLanes] = {};

  // `own`: one value for each of the strip's `channels`, or null.
  LaneFactors(int channels, int period, const float* own) {
    if (own == nullptr) return;
    for (int l = 0; l < kLanes; ++l) {
      if (l % period < channels) lanes[l] = own[l % period];
    }
  }
  LaneFactors(const NormMaps& maps, const NormStrip& strip, const float* of_channels)
      : LaneFactors(strip.channels(maps), strip.period,
                    of_channels == nullptr ? nullptr : of_channels + strip.first) {}
};

// Vectors are no arguments or results of functions: their registers differ between instruction
// sets.
#define DDPBENCH_NORM_INLINE __attribute__((always_inline)) inline

DDPBENCH_NORM_INLINE void load_full_row(NormRow& row, const float* from) {
  row = *reinterpret_cast<const StoredRow*>(from);
}

DDPBENCH_NORM_INLINE void load_full_row(NormRow& row, const BFloat16* from) {
  const HalfBits halves = *reinterpret_cast<const StoredHalves*>(from);
  row = reinterpret_cast<NormRow>(__builtin_convertvector(halves, NormBits) << 16);
}

DDPBENCH_NORM_INLINE void store_full_row(float* to, const NormRow& row) {
  *reinterpret_cast<StoredRow*>(to) = row;
}

// As BFloat16::round.
DDPBENCH_NORM_INLINE void round_row(HalfBits& halves, const NormRow& row) {
  const NormBits wide = reinterpret_cast<NormBits>(row);
  const NormBits rounded = wide + 0x7fffU + (wide >> 16 & 1U);
  const NormBits bits = row == row ? rounded : wide | 0x40U << 16;  // NOLINT: NaN is not itself
  halves = __builtin_convertvector(bits >> 16, HalfBits);
}

DDPBENCH_NORM_INLINE void store_full_row(BFloat16* to, const NormRow& row) {
  HalfBits halves;
  round_row(halves, row);
  *reinterpret_cast<StoredHalves*>(to) = halves;
}

// This stores a row past the caches. `to` is a multiple of kStreamAlignment.
DDPBENCH_NORM_INLINE void stream_full_row(float* to, const NormRow& row) {
  _mm_stream_ps(to, __builtin_shufflevector(row, row, 0, 1, 2, 3));
  _mm_stream_ps(to + 4, __builtin_shufflevector(row, row, 4, 5, 6, 7));
  _mm_stream_ps(to + 8, __builtin_shufflevector(row, row, 8, 9, 10, 11));
  _mm_stream_ps(to + 12, __builtin_shufflevector(row, row, 12, 13, 14, 15));
}

DDPBENCH_NORM_INLINE void stream_full_row(BFloat16* to, const NormRow& row) {
  using EightFloats = float __attribute__((vector_size(8 * sizeof(float))));
  HalfBits halves;
  round_row(halves, row);
  const EightFloats all = reinterpret_cast<EightFloats>(halves);
  auto* const floats = reinterpret_cast<float*>(to);
  _mm_stream_ps(floats, __builtin_shufflevector(all, all, 0, 1, 2, 3));
  _mm_stream_ps(floats + 4, __builtin_shufflevector(all, all, 4, 5, 6, 7));
}

template <typename T>
DDPBENCH_NORM_INLINE void load_row(NormRow& row, const T* from, int lanes, std::int64_t ahead) {
  __builtin_prefetch(from + ahead);
  if (lanes == kLanes) return load_full_row(row, from);
  row = NormRow{};
  for (int l = 0; l < lanes; ++l) row[l] = from[l];
}

DDPBENCH_NORM_INLINE void load_row(NormRow& row, const LaneFactors& factors) {
  load_full_row(row, factors.lanes);
}

template <typename T>
DDPBENCH_NORM_INLINE void store_row(T* to, const NormRow& row, int lanes, bool streams) {
  if (lanes == kLanes) return streams ? stream_full_row(to, row) : store_full_row(to, row);
  for (int l = 0; l < lanes; ++l) to[l] = from_float<T>(row[l]);
}

// Calls body(offset, lanes, which) for rows [begin, end) of a strip. `which` is 0 and 1 in turn.
template <typename Body>
DDPBENCH_NORM_INLINE void for_rows(const NormStrip& strip, std::int64_t begin, std::int64_t end,
                                   const Body& body) {
  const auto visit = [&](int lanes) DDPBENCH_SIMD_BODY {
    std::int64_t r = begin;
    for (; r + 1 < end; r += 2) {
      body(strip.offset + r * strip.step, lanes, 0);
      body(strip.offset + (r + 1) * strip.step, lanes, 1);
    }
    if (r < end) body(strip.offset + r * strip.step, lanes, 0);
  };
  if (strip.width == kLanes) {
    visit(kLanes);
  } else {
    visit(strip.width);
  }
}

template <typename Body>
DDPBENCH_NORM_INLINE void for_all_rows(const NormStrip& strip, const Body& body) {
  for_rows(strip, 0, strip.rows,
           [&](std::int64_t at, int lanes, int) DDPBENCH_SIMD_BODY { body(at, lanes); });
  if (strip.tail > 0) body(strip.offset + strip.rows * strip.step, strip.tail);
}

// Adds term(offset, lanes, first, second) of all rows to the totals of the lanes. Values beyond
// `lanes` do not count.
template <typename Term>
DDPBENCH_NORM_INLINE void add_up(const NormStrip& strip, const Term& term, LaneSums& firsts,
                                 LaneSums& seconds) {
  const auto flush = [&](const NormRow& first, const NormRow& second, int lanes)
                         DDPBENCH_SIMD_BODY {
                           for (int l = 0; l < lanes; ++l) {
                             firsts[static_cast<std::size_t>(l)] += first[l];
                             seconds[static_cast<std::size_t>(l)] += second[l];
                           }
                         };
  for (std::int64_t begin = 0; begin < strip.rows; begin += kChunk) {
    const std::int64_t end = std::min(strip.rows, begin + kChunk);
    // Two sums of each kind, so that an addition does not wait for the one before.
    NormRow firsts_of[2]{}, seconds_of[2]{};
    for_rows(strip, begin, end, [&](std::int64_t at, int lanes, int which) DDPBENCH_SIMD_BODY {
      NormRow first, second;
      term(at, lanes, first, second);
      firsts_of[which] += first;
      seconds_of[which] += second;
    });
    flush(firsts_of[0] + firsts_of[1], seconds_of[0] + seconds_of[1], strip.width);
  }
  if (strip.tail == 0) return;
  NormRow first, second;
  term(strip.offset + strip.rows * strip.step, strip.tail, first, second);
  flush(first, second, strip.tail);
}

// The total of one of the strip's channels.
inline double sum_of_channel(const NormStrip& strip, const LaneSums& lanes, int channel) {
  double sum = 0;
  for (int l = channel; l < kLanes; l += strip.period) sum += lanes[static_cast<std::size_t>(l)];
  return sum;
}

// The totals of the channels, into one of the strip's partial results.
inline void fold(const NormMaps& maps, const NormStrip& strip, const LaneSums& lanes,
                 double* partial, std::size_t which) {
  const int channels = strip.channels(maps);
  for (int c = 0; c < channels; ++c) {
    const double sum = sum_of_channel(strip, lanes, c);
    double& total =
        partial[2 * (strip.sample * maps.channels + strip.first + c) + static_cast<int>(which)];
    total = strip.continues ? total + sum : sum;
  }
}

}  // namespace ddpbench::ops::cpu
