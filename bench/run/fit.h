// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench fit`: the largest batch a device for every strategy, from memory plans alone. Nothing
// is trained. A process of its own opens the devices and plans on them; that which the user started
// opens none.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "bench/options/options.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Has a process of its own plan and prints the table; returns the exit code. Throws ConfigError and
// UnavailableError as a run would that finds no network, data or device.
int run_fit(Options options);

// The job of launch_job by which that process plans. `description`: the jobs of the runs, with any
// batch.
inline constexpr const char* kFitKind = "fit";
int run_fit_planner(const nlohmann::json& description, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels, bool& left_behind);

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
