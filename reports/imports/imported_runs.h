// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes runs of the step times of another program, so that the gate, tables, charts and pages serve
// it, too. What the program did not tell is missing with that reason, never 0.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/imports/step_times.h"

namespace ddpbench::report {

// What the times do not say.
struct ImportedProgram {
  std::string strategy;  // --as
  std::string model = "unknown", dataset;
  std::string device = "cpu", device_model, precision = "fp32", host;
  std::optional<std::int64_t> batch_size;  // samples of a rank in a step
  std::int64_t warmup_steps = 0;           // first steps of each repetition that do not count
};

// A run for each repetition, in their order. The time of a step is that of the slowest rank, by the
// steps that all ranks have. With losses a run has one epoch, whose loss is their mean. Throws
// ConfigError that names `path` and lines when a rank has no steps, a step comes twice, a phase has
// no whole step, or no step is left.
std::vector<Run> imported_runs(const StepTimes& times, const ImportedProgram& program,
                               const std::string& path);

}  // namespace ddpbench::report
