// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a report says of a run before it is made: what was asked for, and what that came to.
#pragma once

#include "bench/plan/training_job.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The run as planned, without results. Runs that could not be started stay like this; the key of a
// run among those of an earlier report is made of it.
report::Run planned_run(const TrainingJob& job);

}  // namespace ddpbench::bench
