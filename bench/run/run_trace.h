// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace from the records of ranks. All runs of a command share one file. Each rank of each
// run is a process of it, with a number of its own and named by the run's title. Every run begins
// at time 0, so that runs lie below each other; each says when that was. No time is below 0:
// viewers drop those.
#pragma once

#include <string>

#include "bench/options/options.h"
#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// Adds the traced steps that the run's ranks finished, also for a run that ended early.
void add_run(report::Trace& trace, const TrainingJob& job, const launch::RankChannels& channels);

// Writes the trace to a file. `force` replaces an existing one. Throws ConfigError.
void write_trace(const report::Trace& trace, const std::string& path, bool force);

}  // namespace ddpbench::bench
