// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// One run in fresh processes: what they inherit, and how they are watched.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/plan/run_spec.h"
#include "bench/run/progress.h"
#include "kernels/nn/model/model.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// A rank that died, threw or stalled is exit 4, unless its own error says that the user's input,
// something that is not here, or a failed verification was the reason.
int failure_exit_code(const launch::RankError& error);

// Room for the records of all processes of the run.
launch::ChannelLayout channel_layout(const RunSpec& spec, const nn::ModelSpec& model);

// Runs a job, of which its processes get the description and the descriptors, and returns when all
// are gone. `job` names channels.fd() as rank_main expects it.
launch::SuperviseResult launch_job(const nlohmann::json& job, int processes, int threads_per_device,
                                   const std::vector<int>& inherited_fds,
                                   launch::RankChannels& channels,
                                   const launch::SuperviseOptions& supervise);

// Runs `spec` (its dataset_fd and reference_fd are inherited) and returns when all processes are
// gone.
launch::SuperviseResult launch_run(RunSpec spec, launch::RankChannels& channels,
                                   Progress& progress);

}  // namespace ddpbench::bench
