// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of `ddpbench fit`: from two plans on, the next one is made where a straight line
// through the bracket's ends meets the limit; in the middle where that gains too little.
#include "bench/run/batch_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/ops/op.h"

namespace ddpbench::bench {
namespace {

// The considered batches have numbers 1, 2, ...
std::int64_t batch_of(std::int64_t number) {
  return number <= kBatchStep ? number : (number - kBatchStep + 1) * kBatchStep;
}
std::int64_t number_of(std::int64_t batch) {
  return batch <= kBatchStep ? batch : batch / kBatchStep + kBatchStep - 1;
}

struct Tried {
  std::int64_t number = 0;
  double share = 0;
};

using ShareOfBatch = std::function<double(std::int64_t batch)>;

// A batch that no device takes is more than any memory.
Tried attempt(const ShareOfBatch& share, std::int64_t number) {
  try {
    return {number, share(batch_of(number))};
  } catch (const ops::BatchTooLarge&) {
    return {number, std::numeric_limits<double>::infinity()};
  }
}

Tried first_that_can_be_planned(const ShareOfBatch& share) {
  for (std::int64_t number = 1;; ++number) {
    try {
      return attempt(share, number);
    } catch (const ops::BatchTooSmall&) {
      if (number == kBatchStep) throw;
    }
  }
}

// The number of the batch at which the line through both meets the limit.
std::int64_t meets_limit(const Tried& a, const Tried& b) {
  const auto from = static_cast<double>(batch_of(a.number));
  const double slope = (b.share - a.share) / (static_cast<double>(batch_of(b.number)) - from);
  const double batch = from + (1 - a.share) / slope;
  if (!(batch < static_cast<double>(kLargestFit))) return number_of(kLargestFit);
  return number_of(std::max<std::int64_t>(1, static_cast<std::int64_t>(batch)));
}

}  // namespace

BatchRange largest_batch(const ShareOfBatch& share) {
  Tried low = first_that_can_be_planned(share);
  BatchRange range{.smallest = batch_of(low.number)};
  if (low.share > 1) return range;
  Tried high = attempt(share, number_of(64));
  while (high.share <= 1) {
    if (high.number == number_of(kLargestFit)) {
      range.largest = kLargestFit;
      return range;
    }
    const std::int64_t guess = meets_limit(low, high) + 1;
    low = high;
    high = attempt(share, std::clamp(guess, low.number + 1, number_of(kLargestFit)));
  }
  constexpr int kLineOnly = 4;  // steps that may follow the line alone
  for (int step = 0; high.number - low.number > 1; ++step) {
    const bool halve = !std::isfinite(high.share) || (step >= kLineOnly && step % 2 == 0);
    const std::int64_t guess = halve ? (low.number + high.number) / 2 : meets_limit(low, high);
    const Tried next = attempt(share, std::clamp(guess, low.number + 1, high.number - 1));
    (next.share <= 1 ? low : high) = next;
  }
  range.largest = batch_of(low.number);
  return range;
}

}  // namespace ddpbench::bench
