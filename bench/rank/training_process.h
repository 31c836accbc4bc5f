// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The job of a training run: what a process that the supervisor started for it does. It has one
// rank, or several (StrategyPlan::ranks_per_process), each with a thread, a device and a channel of
// its own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The job's kind; its description is a TrainingJob.
inline constexpr const char* kTrainingKind = "training";
// A RankJob (rank_main.h). `environment` counts processes.
int run_training_process(const nlohmann::json& description,
                         const launch::RankEnvironment& environment, launch::RankChannels& channels,
                         bool& left_behind);

}  // namespace ddpbench::bench
