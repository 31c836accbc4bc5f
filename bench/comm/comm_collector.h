// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes rows of the report from what the ranks of `ddpbench comm` left in their channels.
#pragma once

#include "bench/comm/comm_job.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The exit code where results are wrong: as for a failed verification of a training run.
inline constexpr int kWrongResultExitCode = 5;

// Appends the rows and the bandwidth that was measured. An interrupted run has the rows that were
// begun; a failed run has all rows, with the reason where figures are missing. Returns the status
// of this part; sets `error` when it failed.
report::Status collect_comm(const CommJob& job, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error);

// Appends the rows of a world that could not be started because of `failure`.
void keep_rows_without_figures(const CommJob& job, const std::string& failure,
                               report::Report& report);

}  // namespace ddpbench::bench
