// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RunExecutor: makes single runs for the supervisor. It holds what they share: the network, the
// decoded data set, and the references that runs are verified against. It never opens a device.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/run_plan.h"
#include "bench/plan/training_job.h"
#include "bench/rank/reference_weights.h"
#include "bench/run/launch_run.h"
#include "bench/run/report_output.h"
#include "bench/run/run_launcher.h"
#include "kernels/nn/model/model.h"
#include "kernels/runtime/shared_memory.h"
#include "parallel/launch/supervisor.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// How many operations a second the CPU devices of a run could do at most, measured in the
// supervisor before the run: multiply-adds in registers, in fp32 or bf16 as the run's products are.
class PeakRates {
 public:
  // Floating-point operations a second of one device of the run, while all devices do the same. It
  // takes 15 ms for each set of cores and precision. It is missing where a device is no CPU, shares
  // its cores, or computes in AMX's tiles.
  report::Figure of(const TrainingJob& job);

 private:
  // The keys are cores and a precision; a figure is that of all the cores together.
  std::map<std::pair<std::vector<int>, std::string>, report::Figure> known_;
};

class RunExecutor {
 public:
  // `options`: resolved (device, backend, number of devices); they outlive the executor. Finds
  // network and data set. Throws ConfigError when they are missing or do not fit each other.
  // `launcher`, if not null, starts the ranks, and outlives the executor.
  RunExecutor(const Options& options, const HostDevices& host, RunLauncher* launcher = nullptr);

  const data::DatasetInfo& dataset() const { return dataset_info_; }
  const nn::ModelSpec& model() const { return model_; }
  const std::string& model_path() const { return network_.path; }

  // Plans the job of a cell. Throws ConfigError for one that cannot work.
  TrainingJob plan(const RunCell& cell) const;
  // Decodes the data set, once, before the first run. Ranks of a launcher do it on their hosts.
  void decode();
  // Where the runs from now on stand among those of the command, to be shown with their progress.
  void place(const SweepPlace& place) { progress_.place(place); }
  // Runs the cell in fresh processes. A failure is an outcome, not an exception: the returned run
  // has it, and stderr shows it.
  report::Run run(const RunCell& cell);
  // Sets up the cell's processes as run() would, and its reference's, and ends them before their
  // first step: devices, weights, memory and limits are checked. Returns false when interrupted. A
  // failure is an outcome, as in run().
  bool rehearse(const RunCell& cell);
  // The exit codes of the runs that have failed so far, in order.
  const std::vector<int>& exit_codes() const { return exit_codes_; }
  // With --trace: the first timed steps of the runs so far.
  RunsTrace trace() const { return {&trace_, traced_runs_}; }

 private:
  report::Run run_job(TrainingJob& job);
  report::Run run_launched(const TrainingJob& job);
  LaunchedRun launch(const TrainingJob& job);
  void add_trace(const TrainingJob& job, report::Trace run);
  void note_failure(const std::string& title, int exit_code, const std::string& message);
  void note_failure(const std::string& title, const launch::RunFailure& failure);
  // The descriptor of the reference of `job`, which is computed once for all runs that share it; -1
  // when the run needs none or it was interrupted. Sets `failure` when it cannot be computed.
  int reference_for(const TrainingJob& job, std::optional<launch::RunFailure>& failure);
  void make_room_for(std::size_t bytes);

  const Options& options_;
  const HostDevices& host_;
  RunLauncher* launcher_;  // null: this process starts the ranks
  nn::ModelSpec model_;
  Network network_;
  std::unique_ptr<data::DatasetSource> source_;
  data::DatasetInfo dataset_info_;
  SharedMemory dataset_;
  Progress progress_;
  std::map<std::string, ReferenceWeights> references_;
  std::set<std::string> rehearsed_references_;
  PeakRates peaks_;
  std::vector<int> exit_codes_;
  report::Trace trace_;
  std::size_t traced_runs_ = 0;
};

}  // namespace ddpbench::bench
