// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The rows of `ddpbench comm` as the gate sees them: runs whose steps are the iterations. So they
// are paired, tested and judged by the same rules. Private to reports/.
#pragma once

#include <deque>
#include <string>

#include "reports/data/report.h"
#include "reports/data/settings.h"
#include "reports/gate/gate_result.h"

namespace ddpbench::report {

// Runs that stand for rows. A deque, as cells point to them.
using CollectiveRuns = std::deque<Run>;

// The operation, its ranks, its bytes and its backend.
PairKey collective_key(const CollectiveRow& row);
// What must be equal in two rows that are compared, beside their key; what a row does not tell is
// absent.
Settings collective_settings(const CollectiveRow& row);

// A run with the time of the iterations as that of its steps. It is verified when no element was
// wrong, and failed or interrupted, as `report` is, when no iteration was timed.
Run run_of(const Report& report, const CollectiveRow& row);

}  // namespace ddpbench::report
