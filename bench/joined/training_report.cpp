// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/joined/training_report.h"

#include "bench/run/launch_run.h"
#include "bench/run/run_collector.h"
#include "bench/run/run_trace.h"
#include "reports/metrics/conditions.h"

namespace ddpbench::bench {
namespace {

// The other ranks are not children of this process. Their use is not known here, and must not count
// as load of other programs.
void fill_joined_conditions(report::Run& run, report::MachineSnapshot before, int processes) {
  if (processes > 1) {
    before.own_busy_s.reset();
    before.own_major_page_faults.reset();
    before.own_involuntary_switches.reset();
  }
  report::fill_conditions(run, before, take_machine_snapshot());
  if (processes == 1) return;
  const auto unknown =
      report::Figure::missing("a launcher started the ranks, and only rank 0's own use is known");
  run.conditions->other_load_ratio = unknown;
  run.conditions->major_page_faults = unknown;
  run.conditions->involuntary_context_switches = unknown;
}

}  // namespace

void TrainingReport::fill_in(report::Report& report, const launch::SuperviseResult& result) {
  report.runs.clear();
  report::Run run = collect_run(job_, channels_, result);
  if (startup_s_ > 0) run.time.startup_s = report::Figure::of(startup_s_);
  run.time.total_s = report::Figure::of(seconds_so_far());
  if (before_) fill_joined_conditions(run, *before_, channels_.layout().ranks);
  const bool diverged = run.status == report::Status::diverged;
  report.status = diverged ? report::Status::failed : run.status;
  report.error = run.error;
  report.runs.push_back(std::move(run));
}

report::Trace TrainingReport::own_trace() const { return trace_of_run(job_, channels_); }

void TrainingReport::add_to(report::Trace& trace) const { add_run(trace, job_, own_trace()); }

int TrainingReport::failed_exit_code(const report::Report& report) const {
  const bool diverged = report.runs.back().status == report::Status::diverged;
  return diverged ? kDivergedExitCode : 1;  // else the areas that the ranks left are broken
}

}  // namespace ddpbench::bench
