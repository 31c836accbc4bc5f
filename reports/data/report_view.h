// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of one or several reports side by side, for everything that shows or exports them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

struct ReportFile {
  std::string name;  // path as the user wrote it
  Report report;
};

// One run of a view. Points into reports that outlive it.
struct RunRow {
  const Report* report = nullptr;
  const Run* run = nullptr;
  std::size_t index = 0;  // in report->runs
  std::string file;       // name of the report; empty where there is no file
};

// In the order of the files and of the runs in each. A file is called by its last part where that
// tells the files apart, else by its whole path.
std::vector<RunRow> all_runs(std::span<const ReportFile> files);
std::vector<RunRow> all_runs(const Report& report);

bool from_several_files(std::span<const RunRow> rows);

// What all runs share, in a line for people: network, data, devices, threads, precision; and, of
// several files, that their machines or versions differ. No control characters.
std::string caption(std::span<const RunRow> rows);

// "single of FILE": what Scaling::baseline says of runs measured against those of `file`.
std::string borrowed_baseline(const ReportFile& file);

// Gives runs whose own report has no `single` run the speed-up against those of other files, where
// these were taken by the same build on the same machine and do the same work (metrics.h,
// fill_scaling). `baseline` then names the file. Scaling that a report states stays as it is.
void complete_scaling(std::span<ReportFile> files);

}  // namespace ddpbench::report
