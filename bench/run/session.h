// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Session: the supervisor of one command. It checks what can be checked before training, makes the
// runs of a sweep in the order of its schedule, and writes the report, also between runs.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/sweep_plan.h"
#include "bench/run/report_output.h"
#include "bench/run/run_executor.h"
#include "reports/data/report.h"

namespace ddpbench::bench {

// The median step time of a run that ended well; nothing for others and for null.
std::optional<double> step_time(const report::Run* run);

class Session {
 public:
  // Throws ConfigError or UnavailableError for what cannot work, before anything is started.
  // `launcher`: what starts the ranks; null: this process.
  Session(Options options, std::vector<std::string> arguments,
          std::unique_ptr<RunLauncher> launcher = nullptr);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Runs everything; returns the command's exit code. Prints progress, table and the report's path.
  int run();

  // The parts of run(), for commands that sweep more than once.
  const Options& options() const { return options_; }
  const nn::ModelSpec& model() const { return executor_->model(); }
  const std::vector<RunCell>& cells() const { return cells_; }
  // With --dry-run: sets all runs up without taking a step. Returns the exit code that the runs
  // would have by then.
  int rehearse();
  // Makes the runs of `schedule`, whose cells are indices into cells(); false when interrupted.
  bool sweep(SweepSchedule& schedule);
  // The run of a slot; null when it was not made.
  const report::Run* find(Slot slot) const;
  report::Report& report() { return report_; }
  int finish();

 private:
  void print_plan() const;
  SweepPlace place_of(Slot slot, std::size_t made, const SweepSchedule& schedule,
                      double elapsed_s) const;
  void resolve_options();
  void drop_equal_cells();
  void adopt(report::Report earlier);
  void keep(Slot slot, report::Run run);
  void drop_unwanted();
  void settle(bool ended);
  void save_partial();

  Options options_;
  std::unique_ptr<RunLauncher> launcher_;
  HostDevices host_;
  std::vector<std::string> notes_;  // to be said before the first run; some are empty
  ReportOutput file_;
  double saved_s_ = 0, save_cost_s_ = 0;  // of the last partial report
  std::optional<RunExecutor> executor_;
  std::vector<RunCell> cells_;  // of different runs
  report::Report report_;
  std::vector<Slot> slots_;  // of the report's runs, which are sorted by slot
  int first_sequence_ = 0;   // of this command's runs; --resume's come before
  int next_sequence_ = 0;
  bool interrupted_ = false;
  bool warned_ = false;  // the user knows that the report cannot be saved
};

}  // namespace ddpbench::bench
