// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench tune`: tries bucket sizes of ddp, interleaved and repeated, confirms the best against
// the default with fresh runs, and recommends it or says that it makes no difference.
#pragma once

#include <string>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// Runs it all and writes the report; returns the exit code. Throws ConfigError for options that
// make more than one world or batch, or one device.
int run_tune(Options options, std::vector<std::string> arguments);

}  // namespace ddpbench::bench
