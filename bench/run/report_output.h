// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the reports of all commands go, how they begin and how they end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench/host/terminal.h"
#include "bench/options/options.h"
#include "reports/data/report.h"
#include "reports/exports/trace.h"

namespace ddpbench::bench {

// Decides where the report of a command goes: --json, else --resume's report, else ddpbench-<UTC
// time>.json in the working directory. With --json=- (or /dev/stdout) it goes to standard output,
// once, at the end; what the program says to people then goes to stderr.
class ReportOutput {
 public:
  ReportOutput() = default;
  // Throws ConfigError when the report or the file of --trace could not be written, or that of
  // --save-model or --checkpoint where this host writes them. The user learns it before any run is
  // made. With --dry-run it only looks.
  explicit ReportOutput(const Options& options);

  // Writes `report`, which has no results yet, as an interrupted one, so that no other command
  // takes its name. A file that may be replaced stays until there is something better. Throws
  // ConfigError where another command was faster.
  void reserve(report::Report report, const Options& options);
  // Writes the whole report, atomically. The first call obeys --force; later ones replace what it
  // wrote.
  void save(const report::Report& report);
  // Completes a report that grows, and saves it as an interrupted one. Where that fails, says so
  // once and goes on: a disk that is full now may not be full at the end.
  void save_so_far(report::Report& report, const Options& options);
  void save_last(const report::Report& report);
  // Where the report is, for people.
  std::string place() const { return is_stream_ ? "standard output" : path_; }
  bool is_stream() const { return is_stream_; }

 private:
  std::string path_;
  bool is_stream_ = false;
  bool warned_ = false;    // the user knows that the report cannot be saved
  FileDescriptor stream_;  // what standard output was; open with is_stream_, but for --dry-run
  bool named_by_time_ = false;
  bool replace_ = false;
};

// Throws ConfigError where a file of --save-model or --checkpoint could not be written: on the host
// of rank 0, which writes them.
void check_rank_outputs(const Options& options);

// Returns a report with the environment and without runs.
report::Report begin_report(const Options& options, std::vector<std::string> arguments);

// Fills in what is computed over all runs (scaling, cells), and the finishing time: now.
void complete_report(report::Report& report, const Options& options);

struct RunsTrace {
  const report::Trace* trace = nullptr;  // set with runs > 0
  std::size_t runs = 0;                  // runs of the report that are in the trace
};

// Completes the report, prints the table, writes the report and, with --trace, also `trace`, and
// prints the paths. A trace without runs is not written, so that it replaces none. Throws
// ConfigError where a file cannot be written.
void finish_report(report::Report& report, const RunsTrace& trace, const Options& options,
                   ReportOutput& file);

// Now: "2026-01-31T12:00:00Z".
std::string utc_timestamp();

// --resume: what differs between the report to complete and the one that this command begins, one
// phrase each: machine, libraries, the program itself, and configuration, except where things are
// written, how runs are ordered and how many repetitions there are. Empty: one report can hold
// both.
std::vector<std::string> resume_differences(const report::Report& earlier,
                                            const report::Report& now);

// Both throw ConfigError: for a report of another command than one that makes runs, and with all
// differences. `path` is the earlier report's.
void check_has_runs_to_resume(const report::Report& earlier, const std::string& path);
void check_resumable(const report::Report& earlier, const report::Report& now,
                     const std::string& path);

}  // namespace ddpbench::bench
