// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes the times, phases, buckets, epochs and loss of a report from the records of ranks
// (docs/metrics.md has the formulas).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/rank/rank_result.h"
#include "parallel/launch/pause_log.h"
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

// The time from `begin_s` to `end_s` without that in which the job was stopped. What lies in a
// pause as a whole was made just before or after the shorter stop.
double running_time(const std::vector<launch::Pause>& pauses, double begin_s, double end_s);

// A row for each epoch that all `ranks` finished: sums over ranks, and the time from the first
// begin to the last end, without the time in which the job was stopped. Loss and accuracies are
// means over the labels that count; a training epoch has some (data::LabelCounts).
std::vector<report::EpochRow> epoch_rows(const std::vector<const RankResult*>& ranks,
                                         const std::vector<launch::Pause>& pauses);

// What a point needs to know of one rank.
struct RankCourse {
  std::span<const LossPoint> points;
  std::span<const launch::StepRecord> steps;  // of all its timed steps, in their order
};

// A point for each step after which all `ranks` have one. `epochs`: the report's rows of the epochs
// that ended; `batch`: samples that all ranks process in a step.
std::vector<report::ProgressPoint> progress_points(const std::vector<RankCourse>& ranks,
                                                   const std::vector<report::EpochRow>& epochs,
                                                   const std::vector<launch::Pause>& pauses,
                                                   std::int64_t batch);

}  // namespace ddpbench::bench
