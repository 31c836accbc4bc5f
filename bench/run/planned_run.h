// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says about a run before it is made: its options, and what they resolved to.
#pragma once

#include "bench/plan/training_job.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The run as planned, without results. A run that could not be started stays like this. Its key
// among the runs of an earlier report is made from it.
report::Run planned_run(const TrainingJob& job);

}  // namespace ddpbench::bench
