// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What a chart calls its runs: titles of what they share, names of lines by what tells them apart.
// Private to reports/.
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

// Of every run, in the order of `runs`: the strategy, and each attribute in which it differs from
// other runs: of all in network, batch, machine, ...; of the same strategy in servers, backend and
// strategy options. Runs that do the same have the same name.
std::vector<std::string> series_names(std::span<const ChartRun> runs);

// Title and subtitle. REQUIRES: `runs` is not empty.
ChartCaption caption_of(std::span<const ChartRun> runs, const std::string& what);

}  // namespace ddpbench::report
