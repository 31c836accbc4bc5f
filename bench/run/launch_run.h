// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One run in fresh processes: what they inherit, and how they are watched.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/plan/training_job.h"
#include "bench/run/progress.h"
#include "kernels/nn/model/model.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// A rank that died, threw or stalled is exit 4, unless its own error says that the user's input,
// something that is not here, or a failed verification was the reason.
int failure_exit_code(const launch::RankError& error);

// Room for the records of all processes of the run.
launch::ChannelLayout channel_layout(const TrainingJob& job, const nn::ModelSpec& model);

// Starts the processes of a job, which the ranks find by `kind` in their table of jobs and know by
// `description`, and returns when all are gone. The processes inherit `inherited_fds` and the
// channels.
launch::SuperviseResult launch_job(const std::string& kind, nlohmann::json description,
                                   int processes, int threads_per_device,
                                   const std::vector<int>& inherited_fds,
                                   launch::RankChannels& channels,
                                   const launch::SuperviseOptions& supervise);

// Runs `job` (its dataset_fd and reference_fd are inherited) and returns when all processes are
// gone.
launch::SuperviseResult launch_run(const TrainingJob& job, launch::RankChannels& channels,
                                   Progress& progress);

}  // namespace ddpbench::bench
