// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From the step records of ranks to the times, phases and buckets of a report (docs/metrics.md has
// the formulas).
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "parallel/launch/rank_channel.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Medians over the observed steps of the maximum over `ranks`: "forward_s", ..., "comm_s",
// "comm_exposed_s", "comm_wait_s", "overlap_ratio". Phases that one strategy alone has are left out
// where they took no time; without observed steps all are missing, with the reason.
std::map<std::string, report::Figure> phase_figures(
    std::span<const std::span<const launch::StepRecord>> ranks);

// Seconds of each step.
std::vector<double> step_times(std::span<const launch::StepRecord> steps);

// A row for each bucket: medians over the timed steps of one rank, in seconds from the step's
// begin. Buckets of steps that were not recorded are left out.
std::vector<report::BucketRow> bucket_rows(std::span<const launch::BucketRecord> buckets,
                                           std::span<const launch::StepRecord> steps);

}  // namespace ddpbench::bench
