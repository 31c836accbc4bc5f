// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Session: the supervisor of one command. Checks everything that can be checked before training,
// decodes the data set, starts every run in fresh processes, collects, and writes the report. It
// never opens a device.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/progress.h"
#include "bench/reference_weights.h"
#include "bench/run_plan.h"
#include "kernels/runtime/cpu_topology.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/supervisor.h"
#include "reports/report.h"
#include "reports/trace.h"

namespace ddpbench::bench {

class Session {
 public:
  // Throws ConfigError or UnavailableError for what cannot work, before anything is started.
  Session(Options options, std::vector<std::string> arguments);

  // Runs everything; returns the command's exit code. Prints progress, table and the report's path.
  int run();

 private:
  report::Run run_cell(const RunCell& cell);
  report::Run run_spec(RunSpec& spec);
  // The reference that `spec` is verified against, computed once for all runs that share it; -1
  // when the run needs none or it was interrupted. `failure` is set when it could not be computed.
  int reference_for(const RunSpec& spec, std::optional<launch::RunFailure>& failure);
  void print_plan() const;
  int exit_code() const;

  Options options_;
  CpuTopology topology_;
  std::string report_path_;
  std::string model_path_;
  nn::ModelSpec model_;
  data::DatasetInfo dataset_info_;
  SharedMemory dataset_;
  Progress progress_;
  std::map<int, ReferenceWeights> references_;  // by world size
  report::Report report_;
  report::Trace trace_;
  std::vector<int> exit_codes_;  // of failed runs, in order
  bool interrupted_ = false;
};

}  // namespace ddpbench::bench
