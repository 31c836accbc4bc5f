// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What is common to the reports of all commands: where they go, how they begin and how they end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/options/options.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// Where the report of a command goes: --json, else --resume's report, else ddpbench-<UTC time>.json
// in the working directory.
class ReportOutput {
 public:
  ReportOutput() = default;
  // Throws ConfigError when the report, or the file of --save-model or --trace, could not be
  // written: no run is then made for nothing.
  explicit ReportOutput(const Options& options);

  // Writes the whole report, atomically. The first call obeys --force, later ones replace what it
  // wrote.
  void save(const report::Report& report);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool named_by_time_ = false;
  bool replace_ = false;
};

// SavePace: when a growing report is saved again. All of it is written each time, so that saving
// after every run of a long sweep would cost more and more of the machine's time.
class SavePace {
 public:
  // Always where the last save took no time to speak of, else so seldom that saving takes about a
  // twentieth of the time.
  bool due(double now_s) const { return cost_s_ < kCheapS || now_s - saved_s_ >= kRest * cost_s_; }

  void saved(double begin_s, double end_s) {
    saved_s_ = end_s;
    cost_s_ = end_s - begin_s;
  }

 private:
  static constexpr double kCheapS = 0.02;
  static constexpr double kRest = 20;  // times what the last save took

  double saved_s_ = 0, cost_s_ = 0;
};

// With the environment; without runs.
report::Report begin_report(const Options& options, std::vector<std::string> arguments);

// What is computed over all runs (scaling, cells), and the finishing time: now.
void complete_report(report::Report& report, const Options& options);

struct RunsTrace {
  const report::Trace* trace = nullptr;  // with runs > 0
  std::size_t runs = 0;                  // of the report, that are in the trace
};

// Completes it, prints the table, writes it, with --trace also `trace`, and prints the paths. A
// trace of no run is not written, so that it replaces none.
void finish_report(report::Report& report, const RunsTrace& trace, const Options& options,
                   ReportOutput& file);

// "2026-01-31T12:00:00Z", now.
std::string utc_timestamp();

}  // namespace ddpbench::bench
