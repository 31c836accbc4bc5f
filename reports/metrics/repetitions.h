// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Repetitions of one setting: which runs belong together, and how well their median is known. The
// independent unit is the repetition, not the step (docs/metrics.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

inline constexpr double kConfidence = 0.95;
// With fewer values no interval between order statistics covers the median with 95 %: five cover it
// with 1 - 2/2^5 = 0.9375.
inline constexpr int kFewestForInterval = 6;

struct MedianInterval {
  double median = 0, low = 0, high = 0;
  double relative_width() const { return (high - low) / median; }
};

// The confidence interval, between order statistics, of the median of the distribution that the
// values come from. It assumes only that they are independent. Nothing with too few values: fewer
// than kFewestForInterval at 95 %.
std::optional<MedianInterval> median_interval(std::vector<double> values,
                                              double confidence = kConfidence);

// The indices of the rows of each cell; cells are in the order of their first rows. Runs of one
// report are repetitions of each other where their cell keys are equal, and so are the device
// models if both are known. A run that failed early does not know its model.
std::vector<std::vector<std::size_t>> repetition_groups(std::span<const RunRow> rows);

// Fills report.cells in the order of their first runs: a summary of each group of repetitions. With
// `wanted_width` (--until-ci, relative) cells with a wider interval, or none, are noisy. Leaves it
// empty when no run was repeated and no width wanted.
void fill_cells(Report& report, std::optional<double> wanted_width);

}  // namespace ddpbench::report
