// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Entry of a process that the supervisor started: one rank of one run.
#pragma once

#include "bench/option_parser.h"

namespace ddpbench::bench {

// The variable that carries the descriptor of the run's specification to a rank.
inline constexpr const char* kRunFdVariable = "DDPBENCH_RUN_FD";

// Returns the process's exit code. Prints nothing: errors go to the rank's channel, except when
// there is no channel yet.
int rank_main(const GetVariable& get_variable);

}  // namespace ddpbench::bench
