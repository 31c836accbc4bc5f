// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace from the records of ranks: one of each run, where they are, and from these the one
// of the command, where it reports. All runs of a command share one file. Each rank of each run is
// a process of it, with a number of its own and named by the run's title. Every run begins at time
// 0, so that runs lie below each other; each says when that was. No time is below 0: viewers drop
// those.
#pragma once

#include <string>

#include "bench/options/options.h"
#include "bench/plan/training_job.h"
#include "parallel/launch/rank_channel.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// The traced steps that the run's ranks finished, also of a run that ended early. Its processes are
// numbered from 0 and named by their rank alone; its metadata is of this run.
report::Trace trace_of_run(const TrainingJob& job, const launch::RankChannels& channels);

// Adds the trace of the run of `job`, under its title. A trace that comes from other processes may
// have any numbers.
void add_run(report::Trace& trace, const TrainingJob& job, report::Trace run);

// Writes the trace to a file. `force` replaces an existing one. Throws ConfigError.
void write_trace(const report::Trace& trace, const std::string& path, bool force);

}  // namespace ddpbench::bench
