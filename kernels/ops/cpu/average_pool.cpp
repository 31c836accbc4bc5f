// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The sums of a window grow in the output's own memory, pixel after pixel. With several channels to
// a pixel that is a vector loop. With one it is not, and a window's sum is short.
#include "kernels/ops/cpu/average_pool.h"

#include <algorithm>

namespace ddpbench::ops::cpu {
namespace {

// Calls body(row range, column range, output pixel, factor) for each output.
template <typename Body>
void for_each_average(const AverageGeometry& g, const Body& body) {
  std::int64_t pixel = 0;
  for (const AveragedRange& rows : g.rows)
    for (const AveragedRange& columns : g.columns) {
      const std::int64_t elements = (rows.end - rows.begin) * (columns.end - columns.begin);
      const auto divisor = static_cast<double>(g.divisor > 0 ? g.divisor : elements);
      body(rows, columns, pixel++, static_cast<float>(1 / divisor));
    }
}

}  // namespace

std::vector<AveragedRange> window_ranges(std::int64_t extent, std::int64_t outputs,
                                         std::int64_t kernel, std::int64_t stride,
                                         std::int64_t pad) {
  std::vector<AveragedRange> ranges;
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t first = i * stride - pad;
    ranges.push_back({std::max<std::int64_t>(first, 0), std::min(first + kernel, extent)});
  }
  return ranges;
}

std::vector<AveragedRange> adaptive_ranges(std::int64_t extent, std::int64_t outputs) {
  std::vector<AveragedRange> ranges;
  for (std::int64_t i = 0; i < outputs; ++i)
    ranges.push_back({i * extent / outputs, ((i + 1) * extent + outputs - 1) / outputs});
  return ranges;
}

void average_forward(SimdLevel level, const AverageGeometry& g, const float* x, float* y) {
  const std::int64_t inner = g.inner;
  for_each_average(g, [&](const AveragedRange& rows, const AveragedRange& columns,
                          std::int64_t pixel, float factor) {
    float* const sums = y + pixel * inner;
    std::fill_n(sums, inner, 0.0F);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* const from = x + (row * g.width + columns.begin) * inner;
      const std::int64_t pixels = columns.end - columns.begin;
      run_simd(level, [=]() DDPBENCH_SIMD_BODY {
        for (std::int64_t p = 0; p < pixels; ++p)
#pragma GCC ivdep
          for (std::int64_t c = 0; c < inner; ++c) sums[c] += from[p * inner + c];
      });
    }
    for (std::int64_t c = 0; c < inner; ++c) sums[c] *= factor;
  });
}

void average_backward(SimdLevel level, const AverageGeometry& g, const float* dy, float* dx) {
  const std::int64_t inner = g.inner;
  std::fill_n(dx, g.input_elements(), 0.0F);
  for_each_average(g, [&](const AveragedRange& rows, const AveragedRange& columns,
                          std::int64_t pixel, float factor) {
    const float* const gradient = dy + pixel * inner;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* const to = dx + (row * g.width + columns.begin) * inner;
      const std::int64_t pixels = columns.end - columns.begin;
      run_simd(level, [=]() DDPBENCH_SIMD_BODY {
        for (std::int64_t p = 0; p < pixels; ++p)
#pragma GCC ivdep
          for (std::int64_t c = 0; c < inner; ++c) to[p * inner + c] += gradient[c] * factor;
      });
    }
  });
}

}  // namespace ddpbench::ops::cpu
