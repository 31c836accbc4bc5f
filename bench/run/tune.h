// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench tune`: tries bucket sizes of ddp, interleaved and repeated, and confirms the best
// against the default with fresh runs. It recommends the best or says that it makes no difference.
#pragma once

#include <string>
#include <vector>

#include "bench/options/options.h"

namespace ddpbench::bench {

// Runs everything and writes the report; returns the exit code. Throws ConfigError for options that
// make several worlds or batches, or one device.
int run_tune(Options options, std::vector<std::string> arguments);

}  // namespace ddpbench::bench
