// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes runs of the step times of another program, so that the gate, tables, charts and pages serve
// it, too. What the program did not tell is missing with that reason, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Of an epoch, 0 where the file tells none, and in it; from 0 or wherever the program begins.
using StepNumber = std::pair<std::int64_t, std::int64_t>;

// A row of the file.
struct StepTime {
  std::size_t line = 0;               // of the file, from 1; 0: of a JSON document
  std::pair<std::string, int> start;  // the program, if the file names it, and its repetition
  int rank = 0;
  StepNumber step;
  double seconds = 0;                  // above 0; of a phase at least 0
  std::string phase;                   // "forward", "comm", ...; empty: the whole step
  std::optional<double> memory_bytes;  // that the rank's device holds at most
  std::optional<double> loss;          // nan or inf of training that diverged
};

struct StepTimes {
  std::vector<StepTime> rows;         // not empty
  std::vector<std::string> not_read;  // columns or keys of the file that have no meaning here
};

// Reads csv (RFC 4180, with a header; of ; or tabs with decimal commas), JSON lines, a JSON array
// of objects or seconds, or the JSON of hyperfine, Google Benchmark or pytest-benchmark. docs/ci.md
// ("A program of your own") describes the columns. A byte order mark of UTF-8 is skipped. Throws
// ConfigError that names `path`, line and column for anything else.
StepTimes parse_step_times(std::string_view text, const std::string& path);

// What the times do not say.
struct ImportedProgram {
  std::string strategy;  // --as; empty: the programs' own names
  std::string model = "unknown", dataset;
  std::string device = "unknown", device_model, precision = "fp32", host;
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
