// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The report's points of loss and accuracy over training, from what the ranks summed up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/rank/rank_result.h"
#include "parallel/launch/rank_records.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

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
