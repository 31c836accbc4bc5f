// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of one or several reports side by side, for tables and exports.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

struct ReportFile {
  std::string name;  // path as the user wrote it
  Report report;
};

struct RepeatedRuns;  // metrics/repetitions.h

// One run of a view, or the repetitions of one setting. Points into reports that outlive it.
struct RunRow {
  const Report* report = nullptr;
  const Run* run = nullptr;                // of repetitions the one with the median step
  std::size_t index = 0;                   // in report->runs; of repetitions the first's
  std::string file;                        // name of the report; empty where there is no file
  const RepeatedRuns* repeated = nullptr;  // the repetitions that the row stands for; null: a run
  std::string marks = {};  // letters of the warnings that concern it (table/table_notes.h)
};

// The runs in the order of the files, then of their report. A file is named by the last part of its
// path if that tells all files apart, otherwise by its whole path.
std::vector<RunRow> all_runs(std::span<const ReportFile> files);
std::vector<RunRow> all_runs(const Report& report);

// Removes the other runs, and summaries of repetitions of which a run is removed.
void keep_runs(Report& report, const std::function<bool(const Run&)>& is_wanted);

bool from_several_files(std::span<const RunRow> rows);

// What all runs share, in one line without control characters: network, data, devices, threads,
// precision. For several files it also says whether their machines or versions differ.
std::string caption(std::span<const RunRow> rows);

}  // namespace ddpbench::report
