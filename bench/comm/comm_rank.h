// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a process of `ddpbench comm` does: one rank, or all of them as threads.
#pragma once

#include "bench/comm/comm_spec.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// Measures all rows and leaves times and results in the channels. Throws Error.
void run_comm_ranks(const CommSpec& spec, const launch::RankEnvironment& environment,
                    launch::RankChannels& channels);

}  // namespace ddpbench::bench
