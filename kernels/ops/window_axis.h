// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What averages over windows and upsample_bilinear read along one axis, alike on every backend but
// the reference.
#pragma once

#include <cstdint>

#include "base/math.h"

namespace ddpbench::ops {

// The windows along one axis. Output i averages [begin(i), end(i)) of the map.
struct AverageAxis {
  std::uint32_t extent = 0, outputs = 0;
  std::uint32_t kernel = 0, stride = 1, pad = 0;  // kernel 0: an adaptive pool
  std::uint32_t counted_to = 0;  // all that counts in means, padding before and after; 0: the map

  DDPBENCH_HOST_DEVICE std::uint32_t begin(std::uint32_t i) const {
    if (kernel == 0) return static_cast<std::uint32_t>(std::uint64_t{i} * extent / outputs);
    return i * stride < pad ? 0 : i * stride - pad;
  }
  DDPBENCH_HOST_DEVICE std::uint32_t end(std::uint32_t i) const {
    if (kernel == 0) {
      return static_cast<std::uint32_t>(((i + std::uint64_t{1}) * extent + outputs - 1) / outputs);
    }
    const std::uint32_t last = i * stride + kernel - pad;
    return last < extent ? last : extent;
  }
  // How many elements divide the sum of output i.
  DDPBENCH_HOST_DEVICE std::uint32_t counted(std::uint32_t i) const {
    if (counted_to == 0) return end(i) - begin(i);
    const std::uint32_t left = counted_to - i * stride;
    return left < kernel ? left : kernel;
  }
  // What each element of output i counts for.
  DDPBENCH_HOST_DEVICE float weight(std::uint32_t i, std::uint32_t) const {
    return 1.0F / static_cast<float>(counted(i));
  }
  // The windows that cover a position of the map: [first_over(position), end_over(position)).
  DDPBENCH_HOST_DEVICE std::uint32_t first_over(std::uint32_t position) const {
    if (kernel == 0) return static_cast<std::uint32_t>(std::uint64_t{position} * outputs / extent);
    return position + pad < kernel ? 0 : (position + pad - kernel) / stride + 1;
  }
  DDPBENCH_HOST_DEVICE std::uint32_t end_over(std::uint32_t position) const {
    if (kernel == 0) {
      return static_cast<std::uint32_t>(((position + std::uint64_t{1}) * outputs + extent - 1) /
                                        extent);
    }
    const std::uint32_t windows = (position + pad) / stride + 1;
    return windows < outputs ? windows : outputs;
  }
};

// Output i is (1 - s) * x[b] + s * x[b + 1] where b + s = max((i + 1/2) * extent / outputs - 1/2,
// 0) with 0 <= s < 1; at the map's end x[b] alone. Whole numbers give b and s exactly, where
// PyTorch rounds the quotient: s differs by a few units in the last place of b.
struct BilinearAxis {
  std::uint32_t extent = 0, outputs = 0;

  // Output i reads [begin(i), end(i)), one element or two.
  DDPBENCH_HOST_DEVICE std::uint32_t begin(std::uint32_t i) const {
    return static_cast<std::uint32_t>(place(i) / (std::uint64_t{2} * outputs));
  }
  DDPBENCH_HOST_DEVICE std::uint32_t end(std::uint32_t i) const {
    const std::uint32_t second = begin(i) + 1;
    return second < extent ? second + 1 : extent;
  }
  // REQUIRES: output i reads `position`.
  DDPBENCH_HOST_DEVICE float weight(std::uint32_t i, std::uint32_t position) const {
    const std::uint32_t first = begin(i), parts = 2 * outputs;
    if (first + 1 == extent) return 1;
    const auto share = static_cast<float>(place(i) % parts) / static_cast<float>(parts);
    return position == first ? 1 - share : share;
  }
  // The outputs that read a position: [first_over(position), end_over(position)).
  DDPBENCH_HOST_DEVICE std::uint32_t first_over(std::uint32_t position) const {
    return position < 2 ? 0 : first_from(position - 1);
  }
  DDPBENCH_HOST_DEVICE std::uint32_t end_over(std::uint32_t position) const {
    return position + 1 == extent ? outputs : first_from(position + 1);
  }

 private:
  // b + s of output i in parts of 1 / (2 * outputs).
  DDPBENCH_HOST_DEVICE std::uint64_t place(std::uint32_t i) const {
    const std::uint64_t centre = (std::uint64_t{2} * i + 1) * extent;
    return centre < outputs ? 0 : centre - outputs;
  }
  // The first output whose b is `position` or more. REQUIRES: position > 0.
  DDPBENCH_HOST_DEVICE std::uint32_t first_from(std::uint32_t position) const {
    const std::uint64_t centre = (std::uint64_t{2} * position + 1) * outputs;
    const std::uint64_t first = (centre + extent - 1) / extent / 2;
    return first < outputs ? static_cast<std::uint32_t>(first) : outputs;
  }
};

}  // namespace ddpbench::ops
