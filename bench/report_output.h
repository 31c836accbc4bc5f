// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The frame of a report that every command writes: where it goes, what it starts and ends with.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "reports/report.h"
#include "reports/trace.h"

namespace ddpbench::bench {

// --json, or ddpbench-<UTC time>.json in the working directory. Throws ConfigError when it, or the
// file of --save-model or --trace, could not be written, so that nobody trains for something that
// is lost.
std::string choose_report_path(const Options& options);

report::Report begin_report(const Options& options, std::vector<std::string> arguments);

// Environment, finishing time, scaling; then prints the table, writes the report, with --trace also
// `trace`, and prints the paths.
void finish_report(report::Report& report, const report::Trace& trace, const Options& options,
                   const std::string& path);

}  // namespace ddpbench::bench
