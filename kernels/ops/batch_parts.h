// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How an operation that couples the samples of a batch reaches the parts of the batch on other
// devices. The code that divides the batch implements BatchParts and passes it to the operations.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/runtime/device.h"

namespace ddpbench::ops {

class BatchParts {
 public:
  virtual ~BatchParts() = default;

  // How many parts there are, with equally many samples each.
  virtual std::size_t count() const = 0;
  // Queues: `all` becomes the `bytes` at `own` of every part, in the order of the parts, on each of
  // them. Both are device memory; `bytes` is a multiple of 8. All parts call this equally often, in
  // one order.
  virtual void gather(Stream& stream, const void* own, void* all, std::size_t bytes) = 0;
};

// Combines the sum and the sum of squared deviations from the mean of one channel from those of all
// parts, each over `values` values (Chan, Golub and LeVeque, "Updating formulae and a pairwise
// algorithm for computing sample variances", 1979). It adds in the order of the parts, so that all
// parts get the same bits.
//
// Sums, not means: sums of fp32 values are mostly exact in double, so the whole batch at once gives
// the same one. A mean would be rounded on the way, and where it lies between two fp32 values, as
// happens among thousands of channels, that would decide which of the two it becomes.
struct Moments {
  double sum = 0, squares = 0;
};
template <typename MomentsOf>
Moments joined_moments(std::size_t parts, double values, const MomentsOf& moments_of) {
  Moments joined;
  for (std::size_t p = 0; p < parts; ++p) joined.sum += moments_of(p).sum;
  const double mean = joined.sum / (values * static_cast<double>(parts));
  for (std::size_t p = 0; p < parts; ++p) {
    const Moments part = moments_of(p);
    const double deviation = part.sum / values - mean;
    joined.squares += part.squares + values * deviation * deviation;
  }
  return joined;
}

}  // namespace ddpbench::ops
