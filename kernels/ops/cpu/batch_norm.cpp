// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// All passes walk over strips: the maps of one sample's group of channels, as rows of 16 values.
// The lanes of a row belong to one channel (plain), to two rounds of 8 channels, or to 16 channels.
// Rows are GCC's vector type, which the compiler maps to the registers of each instruction set.
//
// With the channels last, a row of a strip is a quarter or half of a cache line, and the next one
// lies a pixel further. Passes that read no map twice therefore walk over short strips, those of
// neighbouring channels one after the other, so that lines come from memory once.
#include "kernels/ops/cpu/batch_norm.h"

#include <algorithm>
#include <array>

#include "base/math.h"
#include "kernels/ops/cpu/parallel.h"

namespace ddpbench::ops::cpu {
namespace {

constexpr int kLanes = 16;
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
};

bool is_channels_last(const NormMaps& maps) {
  return maps.inner == maps.channels && maps.inner != 1 && maps.inner != 8 && maps.inner != 16;
}

std::int64_t strip_count(const NormMaps& maps) {
  const std::int64_t group = is_channels_last(maps) ? kLanes : maps.inner;
  return maps.batch * ceil_div(maps.channels, group);
}

NormStrip strip_at(const NormMaps& maps, std::int64_t index) {
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
int threads_for(Team team, const NormMaps& maps) {
  const std::int64_t elements = maps.batch * maps.channels * maps.pixels;
  return elements < kMinParallelElements ? 1 : team.threads;
}

template <typename Body>
void for_each_strip(Team team, const NormMaps& maps, const Body& body) {
  const int threads = threads_for(team, maps);
  parallel_shares(threads, strip_count(maps), 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(strip_at(maps, i));
  });
}

// Rows that are added up in single precision before their sum goes into a double: each rounding is
// then of a sum of at most so many values.
constexpr std::int64_t kChunk = 128;
// Rows of neighbouring channels that are visited together: 256 bytes in bf16.
constexpr std::int64_t kBand = 8;

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
  const int threads = threads_for(team, maps);
  parallel_shares(threads, maps.batch * bands, 1, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) visit(i / bands, i % bands);
  });
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
DDPBENCH_NORM_INLINE void store_full_row(BFloat16* to, const NormRow& row) {
  const NormBits wide = reinterpret_cast<NormBits>(row);
  const NormBits rounded = wide + 0x7fffU + (wide >> 16 & 1U);
  const NormBits bits = row == row ? rounded : wide | 0x40U << 16;  // NOLINT: NaN is not itself
  *reinterpret_cast<StoredHalves*>(to) = __builtin_convertvector(bits >> 16, HalfBits);
}

template <typename T>
DDPBENCH_NORM_INLINE void load_row(NormRow& row, const T* from, int lanes) {
  if (lanes == kLanes) return load_full_row(row, from);
  row = NormRow{};
  for (int l = 0; l < lanes; ++l) row[l] = from[l];
}

DDPBENCH_NORM_INLINE void load_row(NormRow& row, const LaneFactors& factors) {
  load_full_row(row, factors.lanes);
}

template <typename T>
DDPBENCH_NORM_INLINE void store_row(T* to, const NormRow& row, int lanes) {
  if (lanes == kLanes) return store_full_row(to, row);
  for (int l = 0; l < lanes; ++l) to[l] = from_float<T>(row[l]);
}

// Calls body(offset, lanes) for rows [begin, end) of a strip.
template <typename Body>
DDPBENCH_NORM_INLINE void for_rows(const NormStrip& strip, std::int64_t begin, std::int64_t end,
                                   const Body& body) {
  if (strip.width == kLanes) {
    for (std::int64_t r = begin; r < end; ++r) body(strip.offset + r * strip.step, kLanes);
  } else {
    for (std::int64_t r = begin; r < end; ++r) body(strip.offset + r * strip.step, strip.width);
  }
}

template <typename Body>
DDPBENCH_NORM_INLINE void for_all_rows(const NormStrip& strip, const Body& body) {
  for_rows(strip, 0, strip.rows, body);
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
    NormRow first_sum{}, second_sum{};
    for_rows(strip, begin, std::min(strip.rows, begin + kChunk),
             [&](std::int64_t at, int lanes) DDPBENCH_SIMD_BODY {
               NormRow first, second;
               term(at, lanes, first, second);
               first_sum += first;
               second_sum += second;
             });
    flush(first_sum, second_sum, strip.width);
  }
  if (strip.tail == 0) return;
  NormRow first, second;
  term(strip.offset + strip.rows * strip.step, strip.tail, first, second);
  flush(first, second, strip.tail);
}

// The totals of the lanes, added up by channel, into one of the strip's partial results.
void fold(const NormMaps& maps, const NormStrip& strip, const LaneSums& lanes, double* partial,
          std::size_t which) {
  const int channels = strip.channels(maps);
  for (int c = 0; c < channels; ++c) {
    double sum = 0;
    for (int l = c; l < kLanes; l += strip.period) sum += lanes[static_cast<std::size_t>(l)];
    double& total =
        partial[2 * (strip.sample * maps.channels + strip.first + c) + static_cast<int>(which)];
    total = strip.continues ? total + sum : sum;
  }
}

// Calls body(channel) for all channels.
template <typename Body>
void for_each_channel(Team team, const NormMaps& maps, const Body& body) {
  const int threads = maps.partial_count() < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, maps.channels, 8, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) body(c);
  });
}

// The sum of a sample's map, and the squared deviations from its mean.
template <typename T>
void strip_statistics(SimdLevel simd, const NormMaps& maps, const NormStrip& strip, const T* x,
                      double* partial) {
  const auto pixels = static_cast<double>(maps.pixels);
  LaneSums sums{}, none{};
  run_simd(simd, [&]() DDPBENCH_SIMD_BODY {
    add_up(
        strip,
        [x](std::int64_t at, int lanes, NormRow& first, NormRow& second) DDPBENCH_SIMD_BODY {
          load_row(first, x + at, lanes);
          second = NormRow{};
        },
        sums, none);
  });
  fold(maps, strip, sums, partial, 0);
  std::array<float, kLanes> means{};
  const int channels = strip.channels(maps);
  double* const own = partial + 2 * (strip.sample * maps.channels + strip.first);
  for (int c = 0; c < channels; ++c) {
    // Rounded, so that the deviations are from exactly this number.
    means[static_cast<std::size_t>(c)] = static_cast<float>(own[2 * c] / pixels);
  }
  const LaneFactors mean(channels, strip.period, means.data());
  LaneSums deviations{}, squares{};
  run_simd(simd, [&]() DDPBENCH_SIMD_BODY {
    NormRow center;
    load_row(center, mean);
    add_up(
        strip,
        [&](std::int64_t at, int lanes, NormRow& first, NormRow& second) DDPBENCH_SIMD_BODY {
          load_row(first, x + at, lanes);
          first -= center;
          second = first * first;
        },
        deviations, squares);
  });
  fold(maps, strip, squares, partial, 1);
  // What the rounding of the mean left over.
  for (int c = 0; c < channels; ++c) {
    double rest = 0;
    for (int l = c; l < kLanes; l += strip.period) rest += deviations[static_cast<std::size_t>(l)];
    own[2 * c] = means[static_cast<std::size_t>(c)] * pixels + rest;
    own[2 * c + 1] -= rest * (rest / pixels);
  }
}

// Loads the gradient before the ReLU; x is that row of the input. T: the maps' element.
template <typename T>
struct GradientRows {
  explicit GradientRows(const NormGradient& gradient)
      : dy(static_cast<const T*>(gradient.dy)),
        y(static_cast<const T*>(gradient.y)),
        relu(gradient.relu) {}

  const T *dy, *y;
  bool relu;
  NormRow scale{}, shift{};

  DDPBENCH_NORM_INLINE void find(std::int64_t at, int lanes, const NormRow& x, NormRow& g) const {
    load_row(g, dy + at, lanes);
    if (!relu) return;
    NormRow output;
    if (y != nullptr) {
      load_row(output, y + at, lanes);
    } else {
      output = scale * x + shift;
    }
    g = output <= 0 ? NormRow{} : g;
  }
};

}  // namespace

void norm_statistics(Team team, const NormMaps& maps, const void* x, double* partial, double* sums,
                     double* squares) {
  with_element(maps.type, [&](auto element) {
    const auto* const values = static_cast<const decltype(element)*>(x);
    for_each_strip(team, maps, [&](const NormStrip& strip) {
      strip_statistics(team.simd, maps, strip, values, partial);
    });
  });
  // Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
  // variances" (1979), for parts of equal size.
  const auto pixels = static_cast<double>(maps.pixels);
  for_each_channel(team, maps, [&](std::int64_t c) {
    double sum = 0, within = 0, between = 0;
    for (std::int64_t n = 0; n < maps.batch; ++n) {
      sum += partial[2 * (n * maps.channels + c)];
      within += partial[2 * (n * maps.channels + c) + 1];
    }
    sums[c] = sum;
    const double mean = sum / maps.values();
    for (std::int64_t n = 0; n < maps.batch; ++n) {
      const double deviation = partial[2 * (n * maps.channels + c)] / pixels - mean;
      between += deviation * deviation;
    }
    squares[c] = within + pixels * between;
  });
}

namespace {

template <typename T>
void forward_strips(Team team, const NormMaps& maps, const T* x, const NormResult& result, T* y) {
  for_each_part(team, maps, [&](const NormStrip& strip) {
    const LaneFactors scales(maps, strip, result.scale), shifts(maps, strip, result.shift);
    const T* const addend = static_cast<const T*>(result.addend);
    const bool relu = result.relu;
    run_simd(team.simd, [&, x, y, addend, relu]() DDPBENCH_SIMD_BODY {
      NormRow scale, shift;
      load_row(scale, scales);
      load_row(shift, shifts);
      for_all_rows(strip, [&](std::int64_t at, int lanes) DDPBENCH_SIMD_BODY {
        NormRow row;
        load_row(row, x + at, lanes);
        row = scale * row + shift;
        if (addend != nullptr) {
          NormRow other;
          load_row(other, addend + at, lanes);
          row += other;
        }
        if (relu) row = row < 0 ? NormRow{} : row;
        store_row(y + at, row, lanes);
      });
    });
  });
}

template <typename T>
void sum_strips(Team team, const NormMaps& maps, const T* x, const NormGradient& gradient,
                T* rectified, double* partial) {
  for_each_part(team, maps, [&](const NormStrip& strip) {
    const LaneFactors scales(maps, strip, gradient.scale), shifts(maps, strip, gradient.shift),
        means(maps, strip, gradient.mean);
    LaneSums first_sums{}, second_sums{};
    run_simd(team.simd, [&]() DDPBENCH_SIMD_BODY {
      GradientRows<T> rows(gradient);
      NormRow mean;
      load_row(rows.scale, scales);
      load_row(rows.shift, shifts);
      load_row(mean, means);
      add_up(
          strip,
          [&](std::int64_t at, int lanes, NormRow& first, NormRow& second) DDPBENCH_SIMD_BODY {
            load_row(second, x + at, lanes);
            rows.find(at, lanes, second, first);
            if (rectified != nullptr) store_row(rectified + at, first, lanes);
            second = first * (second - mean);
          },
          first_sums, second_sums);
    });
    fold(maps, strip, first_sums, partial, 0);
    fold(maps, strip, second_sums, partial, 1);
  });
}

template <typename T>
void backward_strips(Team team, const NormMaps& maps, const T* x, const NormGradient& gradient,
                     const float* a, const float* b, const float* c, T* dx) {
  for_each_part(team, maps, [&](const NormStrip& strip) {
    const LaneFactors scales(maps, strip, gradient.scale), shifts(maps, strip, gradient.shift),
        means(maps, strip, gradient.mean), as(maps, strip, a), bs(maps, strip, b),
        cs(maps, strip, c);
    run_simd(team.simd, [&]() DDPBENCH_SIMD_BODY {
      GradientRows<T> rows(gradient);
      NormRow mean, of_gradient, of_value, constant;
      load_row(rows.scale, scales);
      load_row(rows.shift, shifts);
      load_row(mean, means);
      load_row(of_gradient, as);
      load_row(of_value, bs);
      load_row(constant, cs);
      for_all_rows(strip, [&](std::int64_t at, int lanes) DDPBENCH_SIMD_BODY {
        NormRow value, g;
        load_row(value, x + at, lanes);
        rows.find(at, lanes, value, g);
        value = of_gradient * g + of_value * (value - mean) + constant;
        store_row(dx + at, value, lanes);
      });
    });
  });
}

}  // namespace

void norm_forward(Team team, const NormMaps& maps, const void* x, const NormResult& result,
                  void* y) {
  with_element(maps.type, [&](auto element) {
    using T = decltype(element);
    forward_strips(team, maps, static_cast<const T*>(x), result, static_cast<T*>(y));
  });
}

void norm_gradient_sums(Team team, const NormMaps& maps, const void* x,
                        const NormGradient& gradient, void* rectified, double* partial,
                        double* sums, double* products) {
  with_element(maps.type, [&](auto element) {
    using T = decltype(element);
    sum_strips(team, maps, static_cast<const T*>(x), gradient, static_cast<T*>(rectified), partial);
  });
  for_each_channel(team, maps, [&](std::int64_t c) {
    sums[c] = products[c] = 0;
    for (std::int64_t n = 0; n < maps.batch; ++n) {
      sums[c] += partial[2 * (n * maps.channels + c)];
      products[c] += partial[2 * (n * maps.channels + c) + 1];
    }
  });
}

void norm_backward(Team team, const NormMaps& maps, const void* x, const NormGradient& gradient,
                   const float* a, const float* b, const float* c, void* dx) {
  with_element(maps.type, [&](auto element) {
    using T = decltype(element);
    backward_strips(team, maps, static_cast<const T*>(x), gradient, a, b, c, static_cast<T*>(dx));
  });
}

}  // namespace ddpbench::ops::cpu
