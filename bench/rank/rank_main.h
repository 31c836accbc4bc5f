// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The entry of a process that the supervisor started: one rank of one job. What kinds of jobs there
// are is main.cpp's to say, so that this room needs to know its own kind only.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The variable that carries the descriptor of the job's description to a rank.
inline constexpr const char* kJobFdVariable = "DDPBENCH_RUN_FD";

// Runs this rank of the job that `description` describes and leaves times and results in the
// channels. Throws Error. Sets `left_behind` when objects were left behind that wait for a device
// that hangs: the process then has to end by end_process().
using RankJob =
    std::function<void(const nlohmann::json& description, const launch::RankEnvironment&,
                       launch::RankChannels& channels, bool& left_behind)>;
using RankJobs = std::map<std::string, RankJob>;  // by kind, as launch_job is told it

// The job of a training run; its description is a TrainingJob.
inline constexpr const char* kTrainingKind = "training";
void run_training_rank(const nlohmann::json& description,
                       const launch::RankEnvironment& environment, launch::RankChannels& channels,
                       bool& left_behind);

// Puts what ended a rank into its channel; returns the exit code.
int report_error(launch::RankWriter& writer, const std::exception& error);

// Runs the one of `jobs` that the supervisor asks for; returns the process's exit code. Errors go
// to the rank's channel; they are printed when there is no channel yet.
int rank_main(const launch::GetVariable& get_variable, const RankJobs& jobs);

}  // namespace ddpbench::bench
