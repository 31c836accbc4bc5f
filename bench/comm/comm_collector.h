// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From what the ranks of `ddpbench comm` left in their channels to rows of the report.
#pragma once

#include "bench/comm/comm_spec.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// Appends the rows (of a run that was interrupted, those that were begun; of one that failed all,
// with the reason where figures are missing) and the bandwidth that was measured. Returns the
// status of this part; sets `error` when it failed.
report::Status collect_comm(const CommSpec& spec, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error);

// Appends the rows of a world that could not be started because of `failure`.
void keep_rows_without_figures(const CommSpec& spec, const std::string& failure,
                               report::Report& report);

}  // namespace ddpbench::bench
