// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Repetitions of one setting: which runs belong together, and how well their median is known. The
// repetition, not the step, is the independent unit (docs/metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

inline constexpr double kConfidence = 0.95;
// Below it no interval between order statistics covers the median with 95 %: 1 - 2/2^5 is 0.9375.
inline constexpr int kFewestForInterval = 6;

struct MedianInterval {
  double median = 0, low = 0, high = 0;
  double relative_width() const { return (high - low) / median; }
};

// Confidence interval of the median of what `values` were drawn from, between order statistics: it
// assumes nothing about the distribution but that the values are independent. Nothing with fewer
// than kFewestForInterval values.
std::optional<MedianInterval> median_interval(std::vector<double> values);

// Whether two runs differ in nothing but the repetition, so that one is the other made again: their
// cell keys are equal, and so are the device models where both are known (a run that failed early
// does not know its own).
bool same_cell(const Run& a, const Run& b);

// Fills report.cells, in the order of their first runs: a summary of every group of runs that are
// repetitions of each other. With `wanted_width` (of --until-ci, relative) cells that are not so
// precise are noisy. Leaves it empty when nothing was repeated or wanted.
void fill_cells(Report& report, std::optional<double> wanted_width);

}  // namespace ddpbench::report
