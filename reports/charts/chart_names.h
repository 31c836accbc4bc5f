// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How a chart names its runs: the title says what they share, the names of lines say how they
// differ. Private to reports/.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "reports/charts/chart_data.h"

namespace ddpbench::report {

// A run and the report that it stands in. Both must outlive it.
struct ChartRun {
  const Report* report = nullptr;
  const Run* run = nullptr;
};

// The name of each run, in the order of `runs`: the strategy, then each setting in which runs
// differ. Servers, backend and strategy options are compared among runs of the same strategy;
// network, batch, machine, ... among all. A run without one of the settings that reports name where
// they are unusual (is_usual_without()) differs from those that have it. Runs of equal settings
// have the same name.
std::vector<std::string> series_names(std::span<const ChartRun> runs);

// What charts say of the machine and the program of a report.
std::string chart_machine(const Report& report);
std::string chart_build(const Report& report);
// All machines of these reports, each once, with the letters of machine_letter().
std::string machines_text(std::span<const Report* const> reports);
// "A" of the first machine, ..., "Z", "A1", ...
std::string machine_letter(std::size_t index);

// Title and subtitle. REQUIRES: `runs` is not empty.
ChartCaption caption_of(std::span<const ChartRun> runs, const std::string& what);

}  // namespace ddpbench::report
