// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs the commands of the program, once their words are parsed.
#pragma once

#include <string>
#include <vector>

namespace ddpbench::bench {

// The whole program except the rank processes: parses, runs, prints errors; returns the exit code.
int command_line_main(const std::vector<std::string>& arguments);

}  // namespace ddpbench::bench
