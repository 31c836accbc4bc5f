// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/cpu/batch_norm.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/ops/op.h"

namespace ddpbench::ops::cpu {
namespace {

// Whether a result is stored past the caches, which then do not read its lines before they are
// overwritten. From 4 times the L2 on, a step of ResNet-50 (batch 16, fp32) takes 0.97 of the time
// (Zen 5, one thread).
bool streams_result(Team team, const NormMaps& maps, const void* result) {
  static const std::size_t l2_bytes = l2_bytes_per_core();
  const bool fills_lines = maps.inner == 8 || maps.inner == 16;
  const bool aligned = reinterpret_cast<std::uintptr_t>(result) % kStreamAlignment == 0;
  const auto bytes =
      static_cast<std::size_t>(maps.batch * maps.channels * maps.pixels) * size_of(maps.type);
  const std::size_t limit = 4 * l2_bytes * static_cast<std::size_t>(threads_for(team, maps));
  return result != nullptr && fills_lines && aligned && limit > 0 && bytes >= limit;
}

// Calls body(channel) for all channels.
template <typename Body>
void for_each_channel(Team team, const NormMaps& maps, const Body& body) {
  const int threads = maps.partial_count() < kMinParallelElements ? 1 : team.threads;
  parallel_shares(threads, maps.channels, 8, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) body(c);
  });
}

// One value stands for each channel of a strip. Those beyond its channels mean nothing.
using ChannelSums = std::array<double, kLanes>;
using ChannelCenters = std::array<float, kLanes>;

// Sums of (x - center) and of its square over a strip, for each of its channels.
template <typename T>
void add_deviations(SimdLevel simd, const NormMaps& maps, const NormStrip& strip, const T* x,
                    const ChannelCenters& centers, ChannelSums& sums, ChannelSums& squares) {
  const LaneFactors factors(strip.channels(maps), strip.period, centers.data());
  LaneSums lane_sums{}, lane_squares{};
  run_simd(simd, [&, x, ahead = strip.ahead(maps)]() DDPBENCH_SIMD_BODY {
    NormRow center;
    load_row(center, factors);
    add_up(
        strip,
        [&](std::int64_t at, int lanes, NormRow& first, NormRow& second) DDPBENCH_SIMD_BODY {
          load_row(first, x + at, lanes, ahead);
          first -= center;
          second = first * first;
        },
        lane_sums, lane_squares);
  });
  for (int c = 0; c < strip.channels(maps); ++c) {
    sums[static_cast<std::size_t>(c)] = sum_of_channel(strip, lane_sums, c);
    squares[static_cast<std::size_t>(c)] = sum_of_channel(strip, lane_squares, c);
  }
}

// The sum of a sample's map, and the squared deviations from its mean.
//
// One pass, around k, the mean of the first rows, which are then in a cache. With s = sum(x - k),
// sum((x - mean)^2) = sum((x - k)^2) - s^2 / n, which loses about a decimal digit at most as long
// as s^2 / n is at most kMaxShift times the result. Else the map is read again, around its mean.
// Chan, Golub and LeVeque, "Algorithms for computing the sample variance" (1983), on shifted data.
template <typename T>
void strip_statistics(SimdLevel simd, const NormMaps& maps, const NormStrip& strip, const T* x,
                      double* partial) {
  constexpr double kMaxShift = 4;
  const auto pixels = static_cast<double>(maps.pixels);
  const auto channels = static_cast<std::size_t>(strip.channels(maps));
  NormStrip start = strip;
  start.rows = std::min(strip.rows, kChunk);
  if (strip.rows > 0) start.tail = 0;
  const double start_pixels =
      static_cast<double>(start.rows * kLanes + start.tail) / static_cast<double>(strip.period);
  ChannelCenters centers{};
  ChannelSums sums{}, squares{};
  add_deviations(simd, maps, start, x, centers, sums, squares);
  const auto move_centers = [&](double values) {
    for (std::size_t c = 0; c < channels; ++c) {
      centers[c] = static_cast<float>(centers[c] + sums[c] / values);
    }
    add_deviations(simd, maps, strip, x, centers, sums, squares);
  };
  move_centers(start_pixels);
  const auto is_far = [&](std::size_t c) {
    const double shift = sums[c] * (sums[c] / pixels);
    return !(shift <= kMaxShift * (squares[c] - shift));
  };
  bool far = false;
  for (std::size_t c = 0; c < channels; ++c) far = far || is_far(c);
  if (far) move_centers(pixels);
  double* const own = partial + 2 * (strip.sample * maps.channels + strip.first);
  for (std::size_t c = 0; c < channels; ++c) {
    own[2 * c] = centers[c] * pixels + sums[c];
    own[2 * c + 1] = squares[c] - sums[c] * (sums[c] / pixels);
  }
}

// Loads the gradient before the ReLU; x is that row of the input. T: the maps' element.
template <typename T>
struct GradientRows {
  DDPBENCH_NORM_INLINE GradientRows(const NormMaps& maps, const NormStrip& strip,
                                    const NormGradient& gradient)
      : dy(static_cast<const T*>(gradient.dy)),
        more(static_cast<const T*>(gradient.more)),
        y(static_cast<const T*>(gradient.y)),
        relu(gradient.relu),
        ahead(strip.ahead(maps)) {
    load_row(scale, LaneFactors(maps, strip, gradient.scale));
    load_row(shift, LaneFactors(maps, strip, gradient.shift));
    load_row(mean, LaneFactors(maps, strip, gradient.mean));
  }

  const T *dy, *more, *y;
  bool relu;
  std::int64_t ahead;
  NormRow scale, shift, mean;

  DDPBENCH_NORM_INLINE void find(std::int64_t at, int lanes, const NormRow& x, NormRow& g) const {
    load_row(g, dy + at, lanes, ahead);
    if (more != nullptr) {
      NormRow other;
      load_row(other, more + at, lanes, ahead);
      g += other;
    }
    if (!relu) return;
    NormRow output;
    if (y != nullptr) {
      load_row(output, y + at, lanes, ahead);
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
  const auto samples = static_cast<std::size_t>(maps.batch);
  for_each_channel(team, maps, [&](std::int64_t c) {
    const auto of_sample = [&](std::size_t n) -> Moments {
      const double* const own = partial + 2 * (static_cast<std::int64_t>(n) * maps.channels + c);
      return {own[0], own[1]};
    };
    const Moments joined = joined_moments(samples, static_cast<double>(maps.pixels), of_sample);
    sums[c] = joined.sum;
    squares[c] = joined.squares;
  });
}

void norm_forward(Team team, const NormMaps& maps, const void* input, const NormResult& result,
                  void* output) {
  with_element(maps.type, [&]<typename T>(T) {
    const auto *const x = static_cast<const T*>(input), *const addend =
                                                            static_cast<const T*>(result.addend);
    auto* const y = static_cast<T*>(output);
    const bool streams = streams_result(team, maps, y);
    for_each_part(team, maps, [&](const NormStrip& strip) {
      const bool relu = result.relu;
      run_simd(team.simd,
               [&, x, y, addend, relu, streams, ahead = strip.ahead(maps)]() DDPBENCH_SIMD_BODY {
                 NormRow scale, shift;
                 load_row(scale, LaneFactors(maps, strip, result.scale));
                 load_row(shift, LaneFactors(maps, strip, result.shift));
                 for_all_rows(strip, [&](std::int64_t at, int lanes) DDPBENCH_SIMD_BODY {
                   NormRow row;
                   load_row(row, x + at, lanes, ahead);
                   row = scale * row + shift;
                   if (addend != nullptr) {
                     NormRow other;
                     load_row(other, addend + at, lanes, ahead);
                     row += other;
                   }
                   if (relu) row = row < 0 ? NormRow{} : row;
                   store_row(y + at, row, lanes, streams);
                 });
               });
    });
  });
}

namespace {

template <typename T>
void sum_strips(Team team, const NormMaps& maps, const T* x, const NormGradient& gradient,
                T* rectified, double* partial) {
  const bool streams = streams_result(team, maps, rectified);
  for_each_part(team, maps, [&](const NormStrip& strip) {
    LaneSums first_sums{}, second_sums{};
    run_simd(team.simd, [&]() DDPBENCH_SIMD_BODY {
      const GradientRows<T> rows(maps, strip, gradient);
      add_up(
          strip,
          [&](std::int64_t at, int lanes, NormRow& first, NormRow& second) DDPBENCH_SIMD_BODY {
            load_row(second, x + at, lanes, rows.ahead);
            rows.find(at, lanes, second, first);
            if (rectified != nullptr) store_row(rectified + at, first, lanes, streams);
            second = first * (second - rows.mean);
          },
          first_sums, second_sums);
    });
    fold(maps, strip, first_sums, partial, 0);
    fold(maps, strip, second_sums, partial, 1);
  });
}

}  // namespace

void norm_backward(Team team, const NormMaps& maps, const void* input, const NormGradient& gradient,
                   const float* a, const float* b, const float* c, void* result) {
  with_element(maps.type, [&]<typename T>(T) {
    const auto* const x = static_cast<const T*>(input);
    auto* const dx = static_cast<T*>(result);
    const bool streams = streams_result(team, maps, dx);
    for_each_part(team, maps, [&](const NormStrip& strip) {
      run_simd(team.simd, [&]() DDPBENCH_SIMD_BODY {
        const GradientRows<T> rows(maps, strip, gradient);
        NormRow of_gradient, of_value, constant;
        load_row(of_gradient, LaneFactors(maps, strip, a));
        load_row(of_value, LaneFactors(maps, strip, b));
        load_row(constant, LaneFactors(maps, strip, c));
        for_all_rows(strip, [&](std::int64_t at, int lanes) DDPBENCH_SIMD_BODY {
          NormRow value, g;
          load_row(value, x + at, lanes, rows.ahead);
          rows.find(at, lanes, value, g);
          value = of_gradient * g + of_value * (value - rows.mean) + constant;
          store_row(dx + at, value, lanes, streams);
        });
      });
    });
  });
}

void norm_gradient_sums(Team team, const NormMaps& maps, const void* x,
                        const NormGradient& gradient, void* rectified, double* partial,
                        double* sums, double* products) {
  with_element(maps.type, [&]<typename T>(T) {
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

}  // namespace ddpbench::ops::cpu
