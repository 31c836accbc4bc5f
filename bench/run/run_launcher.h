// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// RunLauncher: starts the ranks of a matrix's runs in place of the supervisor's own processes:
// on other hosts, or by another program. Each run is a joined world (bench/joined/), whose ranks
// report to it. bench/launchers/ has the launchers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/host/host_devices.h"
#include "bench/options/options.h"
#include "bench/plan/training_job.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// What became of a run.
struct LaunchedRun {
  bool interrupted = false;
  std::optional<report::Run> run;          // as its ranks reported it
  std::optional<report::Trace> trace;      // with --trace, where the ranks could send it
  std::optional<report::ErrorInfo> error;  // why it failed, also where no rank could report
  int exit_code = 0;                       // of the run; 0 unless it failed
};

class RunLauncher {
 public:
  virtual ~RunLauncher() = default;

  // Puts the devices of the hosts in place of this machine's.
  virtual void find_devices(HostDevices& devices) const = 0;
  // What --gpus=all stands for; nothing: as many as `devices` has.
  virtual std::optional<int> slots() const = 0;
  // Puts what is known of the hosts in place of this machine's.
  virtual void describe(report::Environment& environment) const = 0;
  // Resolves --backend for the hosts on which the ranks of `cell` will run; `options` are those of
  // its run. Throws ConfigError or UnavailableError, naming the hosts, if it cannot connect them.
  virtual std::string backend(const Options& options, const RunCell& cell) const = 0;
  // Makes the run of `job`, whose settings are `options`, and returns when all its processes are
  // gone. Calls `tick` about ten times a second. What fails is in the result. With
  // options.dry_run the ranks end before their first step, and report nothing.
  virtual LaunchedRun run(const TrainingJob& job, const Options& options,
                          const std::function<void()>& tick) = 0;
};

}  // namespace ddpbench::bench
