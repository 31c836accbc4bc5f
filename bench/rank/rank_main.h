// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Entry of a process that the supervisor started: one rank of one run.
#pragma once

#include <exception>

#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The variable that carries the descriptor of the run's specification to a rank.
inline constexpr const char* kRunFdVariable = "DDPBENCH_RUN_FD";

// Puts what ended a rank into its channel; returns the exit code.
int report_error(launch::RankWriter& writer, const std::exception& error);

// Returns the process's exit code. Prints nothing: errors go to the rank's channel, except when
// there is no channel yet.
int rank_main(const launch::GetVariable& get_variable);

}  // namespace ddpbench::bench
