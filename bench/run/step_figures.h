// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the times, phases and buckets of a report from the step records of ranks (docs/metrics.md
// has the formulas).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/launch/rank_channel.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Medians over the observed steps of the maximum over `ranks`: "forward_s", ..., "comm_s",
// "comm_exposed_s", "comm_wait_s", "overlap_ratio". Phases of single strategies are left out where
// they took no time. Without observed steps all are missing, with the reason; likewise times of
// communication below `clock_bound_s`, how far they may be off (fill_arrivals).
std::map<std::string, report::Figure> phase_figures(
    std::span<const std::span<const launch::StepRecord>> ranks, double clock_bound_s = 0);

// The same for one further replica of a process (dp): its times in the observed steps. What the
// process's first replica alone does is missing, with the reason. `replica`: its index among the
// process's.
std::map<std::string, report::Figure> replica_figures(
    std::span<const launch::ReplicaRecord> records, std::size_t replica);

// The seconds of each step.
std::vector<double> step_times(std::span<const launch::StepRecord> steps);

// One row per bucket: medians over the timed steps of one rank, in seconds from the step's begin.
// Buckets of steps that were not recorded are left out. `clock_bound_s` as above.
std::vector<report::BucketRow> bucket_rows(std::span<const launch::BucketRecord> buckets,
                                           std::span<const launch::StepRecord> steps,
                                           double clock_bound_s = 0);

}  // namespace ddpbench::bench
