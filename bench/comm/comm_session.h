// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CommSession: the supervisor of `ddpbench comm`. It starts one world after the other in fresh
// processes, collects, and writes the report. It opens no device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/comm/comm_job.h"
#include "bench/options/options.h"
#include "bench/run/report_output.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

class CommSession {
 public:
  // Uses only json_path, force and quiet of `output`. `variables`: the DDPBENCH_ variables that set
  // options, for the report. Before it starts anything, it throws ConfigError for options that
  // cannot work and UnavailableError for what `host` lacks.
  CommSession(const CommOptions& options, const HostDevices& host, const Options& output,
              std::vector<std::string> arguments,
              const std::map<std::string, std::string>& variables);

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
