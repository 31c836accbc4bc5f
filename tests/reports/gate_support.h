// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports for tests of the gate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate.h"

namespace ddpbench::report::test {

// A good ddp run on two devices whose steps take `median_s`; p95 is 10 % above.
Run gate_run(double median_s, int repetition = 0);
// A report with one repetition for each median.
Report gate_report(const std::vector<double>& medians_s);

// A good all-reduce of `bytes` between two ranks in place.
CollectiveRow collective_row(double median_s, std::uint64_t bytes = 4096);
// A report of `ddpbench comm` with one such row of each of these sizes.
Report collective_report(double median_s, const std::vector<std::uint64_t>& sizes = {4096});
// A report for each of these medians.
std::vector<Report> collective_reports(const std::vector<double>& medians_s);

// The medians of five repetitions: 20 ms times `factor`, with a standard deviation of 1 %.
std::vector<double> steady(double factor = 1);

// Checks one new report against one baseline report.
GateResult check_one(const Report& candidate, const Report& base, const GateOptions& options = {});
const FigureVerdict& figure_of(const GateResult& result, std::string_view name);

}  // namespace ddpbench::report::test
