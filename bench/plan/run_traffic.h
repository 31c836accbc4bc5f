// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What the devices and servers of a run send each other in a step, for its report.
#pragma once

#include "bench/plan/training_job.h"
#include "kernels/nn/graph.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// `graph`: of one of the run's replicas. Missing where the run's backend does not tell.
Known<report::StepTraffic> run_traffic(const TrainingJob& job, const nn::Graph& graph);

}  // namespace ddpbench::bench
