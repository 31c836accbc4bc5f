// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The frame of a report that every command writes: where it goes, what it starts and ends with.
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
  // Throws ConfigError when it, or the file of --save-model or --trace, could not be written, so
  // that nobody trains for something that is lost.
  explicit ReportOutput(const Options& options);

  // Writes all of it, atomically. The first call obeys --force, later ones replace what it wrote.
  void save(const report::Report& report);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool named_by_time_ = false;
  bool replace_ = false;
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
