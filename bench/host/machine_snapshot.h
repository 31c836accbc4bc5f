// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the counters that reports/metrics/conditions.h compares.
#pragma once

#include <string>

#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

// Reads this machine and this process now. Counters that the system does not tell are left out. It
// takes tens of microseconds to a few milliseconds (one file per processor): call it between runs.
report::MachineSnapshot take_machine_snapshot();

// For tests: the same from files below `root` ("" for the system's own), without the values of
// getrusage and the clock.
report::MachineSnapshot read_machine_counters(const std::string& root);

}  // namespace ddpbench::bench
