// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Average-pool kernels over planes of pixels whose channels lie together, [h][w][inner], as those
// of max_pool.h. One addition an element of each window and one multiplication an output; forward
// reads the map once and writes the averages, backward reads these and writes the map.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/cpu/simd.h"
#include "kernels/ops/tensor_layout.h"

namespace ddpbench::ops::cpu {

// Along one axis: the elements of the map that an output averages, [begin, end).
struct AveragedRange {
  std::int64_t begin, end;
};
// Windows of `kernel` elements, cut at the map's edges.
std::vector<AveragedRange> window_ranges(std::int64_t extent, std::int64_t outputs,
                                         std::int64_t kernel, std::int64_t stride,
                                         std::int64_t pad);
// As adaptive_avg_pool2d defines them.
std::vector<AveragedRange> adaptive_ranges(std::int64_t extent, std::int64_t outputs);

struct AverageGeometry {
  std::int64_t height = 0, width = 0;
  std::int64_t inner = 0;                    // channels of a pixel
  std::vector<AveragedRange> rows, columns;  // one for each output row and column
  std::int64_t divisor = 0;                  // of every sum; 0: the elements of its own window

  std::int64_t out_h() const { return static_cast<std::int64_t>(rows.size()); }
  std::int64_t out_w() const { return static_cast<std::int64_t>(columns.size()); }
  std::int64_t input_elements() const { return height * width * inner; }
  std::int64_t output_elements() const { return out_h() * out_w() * inner; }
};

void average_forward(SimdLevel level, const AverageGeometry& geometry, const float* x, float* y);
// Writes all of dx.
void average_backward(SimdLevel level, const AverageGeometry& geometry, const float* dy, float* dx);

}  // namespace ddpbench::ops::cpu
