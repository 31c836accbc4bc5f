// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports for tests of the gate.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/gate/gate.h"

namespace ddpbench::report::test {

// A good ddp run on two devices whose steps take `median_s`; p95 is 10 % above.
Run gate_run(double median_s, int repetition = 0);
// A report with a repetition for each median.
Report gate_report(const std::vector<double>& medians_s);

// Five repetitions around 20 ms with a standard deviation of 1 %, times `factor`.
std::vector<double> steady(double factor = 1);

// The verdict on one new and one baseline report.
GateResult check_one(const Report& fresh, const Report& base, const GateOptions& options = {});
const FigureVerdict& figure_of(const GateResult& result, const std::string& name);

}  // namespace ddpbench::report::test
