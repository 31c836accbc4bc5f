// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What each command does once it was parsed.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::bench {

// The whole program but for the rank processes: parses, runs, prints errors; returns the exit code.
int command_line_main(const std::vector<std::string>& arguments);

}  // namespace ddpbench::bench
