// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The settings on which the ranks of a joined world must agree. A launcher may start each rank with
// different options. The report, which gives one value for all ranks, would then be wrong.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "bench/plan/training_job.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::bench {

struct PlanValue {
  std::string name, value;
  bool operator==(const PlanValue&) const = default;
};
using PlanValues = std::vector<PlanValue>;

// The program's version, the world's size, the options and the contents of the files they name, as
// far as they influence what is computed or measured. Where files lie and what is printed does not.
// Throws ConfigError when a file cannot be read.
PlanValues option_values(const Options& options, const launch::RankEnvironment& environment);

// What the options resolved to: batches, learning rate, data set, backend, and so on. Which cores
// and GPUs a rank has is its own.
PlanValues job_values(const TrainingJob& job, const launch::ChannelLayout& layout);

// Each value within `json`, named by its pointer.
PlanValues flat_values(const nlohmann::json& json);

// {"hash": ..., "values": [[name, value], ...]}
nlohmann::json plan_json(const PlanValues& values);

// Compares what two ranks say, both by plan_json(). Returns "--lr is 0.1 on rank 2 but 0.01 on rank
// 0" for the first value that differs; empty when the hashes are equal. Throws nlohmann's errors
// for anything else.
std::string disagreement(int rank, const nlohmann::json& values, int other,
                         const nlohmann::json& other_values);

}  // namespace ddpbench::bench
