// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The search of `ddpbench fit` for the largest batch.
#pragma once

#include <cstdint>
#include <functional>

namespace ddpbench::bench {

// The batches that are considered: 1 to 8, then multiples of 8, which micro-batches divide.
inline constexpr std::int64_t kBatchStep = 8;
inline constexpr std::int64_t kLargestFit = std::int64_t{1} << 20;

struct BatchRange {
  std::int64_t smallest = 1;  // that can be planned
  std::int64_t largest = 0;   // that fits; 0: none does; kLargestFit: no limit was found
};

// Returns the largest considered batch whose share of the memory is at most 1, such that the next
// one's is more. `share` is nearly linear in the batch, so that few plans are made. It may throw
// ops::BatchTooLarge, which is a limit like memory, and ops::BatchTooSmall. A network that cannot
// be planned for kBatchStep samples cannot be planned: that error is thrown.
BatchRange largest_batch(const std::function<double(std::int64_t batch)>& share);

}  // namespace ddpbench::bench
