// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The process of `ddpbench fit` that opens a device and plans on it. The process that the user
// started opens none.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "bench/run/fit_memory.h"
#include "kernels/runtime/memory_needs.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The largest batch of one run of the command.
struct FitRow {
  std::int64_t batch = 0;     // samples a device; 0: none fits
  std::int64_t smallest = 1;  // that can be planned
  std::string ended_by;       // what the next batch is too large for; "nothing": no limit was found
  // These describe what is fullest with `batch`, or with the least batch where none fits.
  std::size_t bytes = 0, limit_bytes = 0;
  CategoryBytes by_category{};
  std::optional<double> bytes_per_sample;  // there; null: fewer than two batches fit
  std::string note;                        // a sentence; may be empty
};

struct FitResult {
  std::vector<FitRow> rows;  // [job]
  std::size_t memory_bytes = 0;
  std::string memory_words;  // where that number is from
};

// The job of launch_job; its description is fit_description().
inline constexpr const char* kFitKind = "fit";
int run_fit_planner(const nlohmann::json& description, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels, bool& left_behind);

// `jobs`: one for each run, with any batch. Not empty. `found`: what is free, where a rank has
// told; then the data set is in memory already.
nlohmann::json fit_description(const std::vector<TrainingJob>& jobs,
                               const std::optional<FoundFree>& found);
// Reads the planner's result text.
FitResult fit_result(const std::string& text);

}  // namespace ddpbench::bench
