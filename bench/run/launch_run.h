// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts one run in fresh processes: what they inherit, and how they are watched.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/host/interrupt.h"
#include "bench/host/memory_groups.h"
#include "bench/plan/training_job.h"
#include "bench/run/progress.h"
#include "kernels/nn/model/model.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// Returns 4 for a rank that died, threw or stalled. Its own error's code counts instead when the
// reason was the user's input, something unavailable, or a failed verification.
int failure_exit_code(const launch::RankError& error);

// The exit code of a run whose training diverged: the user's settings do not train.
inline constexpr int kDivergedExitCode = 2;

// Makes room for the records of all processes of the run.
launch::ChannelLayout channel_layout(const TrainingJob& job, const nn::ModelSpec& model);

// The ranks of a job; rank r is of process r / per_process.
struct JobRanks {
  int ranks = 1;
  int per_process = 1;
};

// Starts the processes of a job and returns when all are gone. They find the job by `kind` in
// their table of jobs, and read its `description`. They inherit `inherited_fds` and the channels.
launch::SuperviseResult launch_job(const std::string& kind, nlohmann::json description,
                                   const JobRanks& ranks, int threads_per_device,
                                   const std::vector<int>& inherited_fds,
                                   launch::RankChannels& channels,
                                   const launch::SuperviseOptions& supervise);

// Where SIGKILL ended a rank, and the kernel has ended a process for lack of memory since `before`,
// the failure's message says so.
void note_memory_kill(const MemoryKills& before, launch::SuperviseResult& result);

// Runs `job` (its dataset_fd and reference_fd are inherited) and returns when all processes are
// gone. It is interrupted when `interrupted`, asked often, says so.
launch::SuperviseResult launch_run(const TrainingJob& job, launch::RankChannels& channels,
                                   Progress& progress,
                                   std::function<bool()> interrupted = interrupt_requested);

}  // namespace ddpbench::bench
