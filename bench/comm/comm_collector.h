// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From what the ranks of `ddpbench comm` left in their channels to rows of the report.
#pragma once

#include "bench/comm/comm_spec.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"
#include "reports/report.h"

namespace ddpbench::bench {

// Appends a row for each that was begun, also of a run that failed or was interrupted, and the
// bandwidth that was measured. Returns the status of this part; sets `error` when it failed.
report::Status collect_comm(const CommSpec& spec, const launch::RankChannels& channels,
                            const launch::SuperviseResult& result, report::Report& report,
                            std::optional<report::ErrorInfo>& error);

}  // namespace ddpbench::bench
