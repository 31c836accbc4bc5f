// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The work of one process of `ddpbench comm`: one rank, or all of them as threads.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

inline constexpr const char* kCommKind = "comm";

// A RankJob (rank_main.h) whose description is a CommJob. Measures all rows and leaves times and
// results in the channels. Throws Error. Leaves nothing behind that could hang.
int run_comm_ranks(const nlohmann::json& description, const launch::RankEnvironment& environment,
                   launch::RankChannels& channels, bool& left_behind);

}  // namespace ddpbench::bench
