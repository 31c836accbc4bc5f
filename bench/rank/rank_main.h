// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The entry of a process that the supervisor started: one rank of one job, or the ranks that share
// the process. main.cpp names the kinds of jobs; this room knows the ranks of a training run only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "parallel/comm/store/store.h"
#include "parallel/comm_backends.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The environment variable with the descriptor of the job's description.
inline constexpr const char* kJobFdVariable = "DDPBENCH_RUN_FD";

// Runs this process's part of the job and leaves its results in the channels. `environment` counts
// processes. An Error that it throws is reported as that of the process's first rank.
using RankJob = std::function<void(const nlohmann::json& description,
                                   const launch::RankEnvironment&, launch::RankChannels& channels)>;
using RankJobs = std::map<std::string, RankJob>;  // by the kind given to launch_job

// Runs the entry of `jobs` that the supervisor asks for; returns the process's exit code.
int rank_main(const RankJobs& jobs);

// Makes each rank's own connection to where the ranks of one process meet those of others, or each
// other where they are the whole world: a call of one rank may wait for another. Null for a rank
// that is alone. Throws CommError. `environment` outlives it.
using ConnectRank = std::function<std::shared_ptr<comm::Store>()>;
ConnectRank rank_meeting(const launch::RankEnvironment& environment, int ranks, double timeout_s);

// Where a rank is among those of a world that may be on several hosts.
struct RankPlace {
  RankNetwork network;
  std::string address;  // of this host, at which the others reach it; empty: all are here
};
// `interface`: --interface. Throws ConfigError and CommError for what this host lacks.
RankPlace place_of_rank(const launch::RankEnvironment& environment, const std::string& interface);

// Runs `count` ranks of this process, from `first` on, each on a thread; the first is the calling
// one. Where ranks fail, tells their errors, and when all have ended, ends the process at once with
// the exit code of one that caused it: nothing that a failed rank leaves behind is waited for.
using RunRank = std::function<void(int rank, launch::RankWriter& writer)>;
void run_ranks_of_process(int first, int count, launch::RankChannels& channels, const RunRank& run);

// The kind of a training run, whose description is a TrainingJob.
inline constexpr const char* kTrainingKind = "training";
// A RankJob.
void run_training_process(const nlohmann::json& description,
                          const launch::RankEnvironment& environment,
                          launch::RankChannels& channels);

}  // namespace ddpbench::bench
