// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the counters that reports/metrics/conditions.h compares.
#pragma once

#include <string>

#include "reports/metrics/conditions.h"

namespace ddpbench::bench {

// This machine and this process now. What the system does not tell is left out. Tens of
// microseconds to a few milliseconds (a file a processor): for between runs, not for within.
report::MachineSnapshot take_machine_snapshot();

// The same from files below `root` ("" for the system's own), without what getrusage and the clock
// tell: for tests.
report::MachineSnapshot read_machine_counters(const std::string& root);

}  // namespace ddpbench::bench
