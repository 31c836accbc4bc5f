// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench fit`: the largest batch a device for every strategy, from memory plans alone. `ddpbench
// tune`: tries bucket sizes of ddp and confirms the best against the default with fresh runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"
#include "kernels/nn/model/model.h"

namespace ddpbench::bench {

// Prints the table of largest batches; returns the exit code. Throws ConfigError and
// UnavailableError as a run would that finds no network, data or device.
int run_fit(Options options);

// The batches that are considered: 1 to 8, then multiples of 8, which micro-batches divide.
inline constexpr std::int64_t kBatchStep = 8;
inline constexpr std::int64_t kLargestFit = std::int64_t{1} << 20;

struct BatchRange {
  std::int64_t smallest = 1;  // that can be planned
  std::int64_t largest = 0;   // that fits; 0: none does; kLargestFit: no limit was found
};

// Returns the largest considered batch whose share of the memory is at most 1, such that the next
// one's is more. `share` may throw ops::BatchTooLarge, which is a limit like memory, and
// ops::BatchTooSmall. A network that cannot be planned for kBatchStep samples cannot be planned:
// that error is thrown.
BatchRange largest_batch(const std::function<double(std::int64_t batch)>& share);

// Sizes in bytes of the gradient buckets that ddp makes of `model`, in the order of sending. Like
// plan_buckets, but from the shapes alone: a device's memory layouts may pad tensors a little.
std::vector<std::size_t> bucket_bytes(const nn::ModelSpec& model, double first_bucket_mb,
                                      double bucket_cap_mb);

// Fills empty lists of bucket sizes and overlap with sizes that suit the model. PyTorch's defaults
// (1 and 25 MiB, overlap on) come first in all of them.
void fill_tune_lists(Options& options, const nn::ModelSpec& model);

// Returns the cells of one ddp world that are worth a run: the first, which is the default, and one
// for every other way to cut the gradients. Without overlap, buckets only cost: there, only the
// default's buckets and the fewest are worth a run.
std::vector<std::size_t> distinct_settings(const std::vector<RunCell>& cells,
                                           const nn::ModelSpec& model);

// Runs everything and writes the report; returns the exit code. Throws ConfigError for options that
// make several worlds or batches, or one device.
int run_tune(Options options, std::vector<std::string> arguments);

}  // namespace ddpbench::bench
