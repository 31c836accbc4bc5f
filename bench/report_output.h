// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The frame of a report that every command writes: where it goes, what it starts and ends with.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "reports/report.h"

namespace ddpbench::bench {

// Where the report of a command goes: --json, else --resume's report, else ddpbench-<UTC time>.json
// in the working directory.
class ReportFile {
 public:
  ReportFile() = default;
  // Throws ConfigError when it, or the file of --save-model, could not be written, so that nobody
  // trains for something that is lost.
  explicit ReportFile(const Options& options);

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

// Completes it, prints the table, writes it and prints the path.
void finish_report(report::Report& report, const Options& options, ReportFile& file);

// "2026-01-31T12:00:00Z", now.
std::string utc_timestamp();

}  // namespace ddpbench::bench
