// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommSession: the supervisor of `ddpbench comm`. It starts one world after the other in fresh
// processes, makes rows of the report from what the ranks left in their channels, and writes it. It
// opens no device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/comm/comm_job.h"
#include "bench/options/options.h"
#include "bench/run/report_output.h"
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

class CommSession {
 public:
  // Uses only json_path, force and quiet of `output`. Before it starts anything, it throws
  // ConfigError for options that cannot work and UnavailableError for what `host` lacks.
  CommSession(const CommOptions& options, const HostDevices& host, const Options& output,
              std::vector<std::string> arguments);

  // Measures; returns the exit code. Prints progress, table and the report's path.
  int run();

 private:
  // Returns the exit code of this world.
  int run_world(const CommJob& job);

  Options output_;
  ReportOutput file_;
  std::vector<CommJob> worlds_;
  report::Report report_;
  bool interrupted_ = false;
};

}  // namespace ddpbench::bench
