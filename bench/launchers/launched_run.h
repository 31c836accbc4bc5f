// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// A run of a matrix whose ranks a launcher starts: how its settings reach the ranks, and what a
// rank does with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {

// The variable that has the settings. Unlike a file or standard input, all launchers hand it on.
inline constexpr const char* kLaunchedRunVariable = "DDPBENCH_LAUNCHED_RUN";

// `options` of one run as the value of that variable: it reports to standard output, with its trace
// where one is wanted, and says nothing to people. Where things are written or started stays with
// the supervisor.
std::string launched_run_text(Options options);
// Throws ConfigError for anything else.
Options launched_run_options(const std::string& text);

// The variables of all ranks of a run: its settings, and a secret of its own.
std::map<std::string, std::string> launched_run_variables(const Options& options);

// The variables that a rank must not have from the environment that its launcher runs in: they
// would be taken for its place, or for options.
std::vector<std::string> variables_to_drop();

// One rank, placed by its variables. Returns its exit code.
int run_launched_rank(const std::string& text, const launch::GetVariable& get,
                      const std::vector<std::string>& arguments);

}  // namespace ddpbench::bench
