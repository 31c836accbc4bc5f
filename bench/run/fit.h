// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench fit`: the largest batch a device for every strategy, from memory plans alone. Nothing
// is trained.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/options/options.h"

namespace ddpbench::bench {

// Prints the table; returns the exit code. Throws ConfigError and UnavailableError as a run would
// that finds no network, data or device.
int run_fit(Options options);

// Reads "16GiB", "80GB", "512MiB" or a number of bytes; K, M, G and T alone are powers of 1024.
// Throws ConfigError for other text, and for no byte at all.
std::uint64_t memory_size(const std::string& text);

// The batches that are considered: 1 to 8, then multiples of 8, which micro-batches divide.
inline constexpr std::int64_t kBatchStep = 8;
inline constexpr std::int64_t kLargestFit = std::int64_t{1} << 20;

// Returns the largest considered batch whose share of the memory is at most 1, such that the next
// one's is more; 0 when 1 sample is too much, kLargestFit when no limit was found. `share` is
// nearly linear in the batch, so that few plans are made.
std::int64_t largest_batch(const std::function<double(std::int64_t batch)>& share);

}  // namespace ddpbench::bench
