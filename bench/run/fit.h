// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// `ddpbench fit`: the largest batch a device for every strategy, from memory plans alone. Nothing
// is trained.
#pragma once

#include "bench/options/options.h"

namespace ddpbench::bench {

// Has a process of its own plan (fit_planner.h) and prints the table; returns the exit code. Throws
// ConfigError and UnavailableError as a run would that finds no network, data or device.
int run_fit(Options options);

}  // namespace ddpbench::bench
