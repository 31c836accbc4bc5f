// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The manual page, made from the table of options and the help of the commands.
#pragma once

#include <string>
#include <vector>

#include "bench/options/option_help.h"

namespace ddpbench::bench {

// Returns ddpbench(1) for groff's man macros. `version`: "0.1.0".
std::string man_page(const std::vector<CommandSummary>& commands, const std::string& version);

}  // namespace ddpbench::bench
