// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Speed-up and efficiency against the `single` run of the same report or of another one.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"

namespace ddpbench::report {

// speedup = throughput / that of single; efficiency = speedup / world_size.
Scaling scaling(double samples_per_s, double single_samples_per_s, int world_size);
// Fills run.scaling or run.scaling_reason of every run. Its baseline is the `single` run of the
// same report with the same device kind and model, threads, network and precision, and the same
// per-device batch in weak scaling or global batch in strong scaling; the median over its
// repetitions.
void fill_scaling(Report& report);

// The usable repetitions of the baseline of `run`, as fill_scaling chooses it. Points into
// `report`.
std::vector<const Run*> baseline_runs(const Report& report, const Run& run);
// The same of each run of the report, in their order.
std::vector<std::vector<const Run*>> baselines_of(const Report& report);
// Why `run` has none.
std::string no_baseline_reason(const Report& report, const Run& run);

// "single of FILE": Scaling::baseline of runs that are measured against those of `file`.
std::string borrowed_baseline(const ReportFile& file);

// Fills in the speed-up of runs whose own report has no `single` run, from the `single` runs of
// other files by the same build on the same machine that do the same work (as fill_scaling
// chooses). `baseline` then names the file. Scaling that a report states is kept.
void complete_scaling(std::span<ReportFile> files);

}  // namespace ddpbench::report
