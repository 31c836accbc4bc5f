// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/options/options.h"

namespace ddpbench::bench {

// Throws ConfigError where a result would be written over another one or over what the command
// reads, under whichever names: --force is about files of earlier commands. The report may replace
// the one of --resume, from which it grows.
void check_file_conflicts(const Options& options);

}  // namespace ddpbench::bench
