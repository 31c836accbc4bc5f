// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of `ddpbench fit`: from two plans on, the next one is made where a straight line
// through the bracket's ends meets the limit; in the middle where that gains too little.
#include <algorithm>
#include <cmath>

#include "bench/run/fit.h"

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

// The number of the batch at which the line through both meets the limit.
std::int64_t meets_limit(const Tried& a, const Tried& b) {
  const auto from = static_cast<double>(batch_of(a.number));
  const double slope = (b.share - a.share) / (static_cast<double>(batch_of(b.number)) - from);
  const double batch = from + (1 - a.share) / slope;
  if (!(batch < static_cast<double>(kLargestFit))) return number_of(kLargestFit);
  return number_of(std::max<std::int64_t>(1, static_cast<std::int64_t>(batch)));
}

}  // namespace

std::int64_t largest_batch(const std::function<double(std::int64_t batch)>& share) {
  const auto attempt = [&](std::int64_t number) { return Tried{number, share(batch_of(number))}; };
  Tried low = attempt(1);
  if (low.share > 1) return 0;
  Tried high = attempt(number_of(64));
  while (high.share <= 1) {
    if (high.number == number_of(kLargestFit)) return kLargestFit;
    const std::int64_t guess = meets_limit(low, high) + 1;
    low = high;
    high = attempt(std::clamp(guess, low.number + 1, number_of(kLargestFit)));
  }
  constexpr int kLineOnly = 4;  // steps that may follow the line alone
  for (int step = 0; high.number - low.number > 1; ++step) {
    const bool halve = step >= kLineOnly && step % 2 == 0;
    const std::int64_t guess = halve ? (low.number + high.number) / 2 : meets_limit(low, high);
    const Tried next = attempt(std::clamp(guess, low.number + 1, high.number - 1));
    (next.share <= 1 ? low : high) = next;
  }
  return batch_of(low.number);
}

}  // namespace ddpbench::bench
