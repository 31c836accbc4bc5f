// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The report's rows of epochs, from what the ranks found.
#pragma once

#include <vector>

#include "bench/rank/rank_result.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The time from `begin_s` to `end_s` without that in which the job was stopped. What lies in a
// pause as a whole was made just before or after the shorter stop.
double running_time(const std::vector<launch::Pause>& pauses, double begin_s, double end_s);

// A row for each epoch that all `ranks` finished: sums over ranks, and the time from the first
// begin to the last end, without the time in which the job was stopped. Loss and accuracies are
// means over the labels that count; a training epoch has some (data::LabelCounts).
std::vector<report::EpochRow> epoch_rows(const std::vector<const RankResult*>& ranks,
                                         const std::vector<launch::Pause>& pauses);

}  // namespace ddpbench::bench
