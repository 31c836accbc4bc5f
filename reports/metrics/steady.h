// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a series of step times keeps its level: the end of a warm-up, and drift within a run.
// docs/metrics.md has the formulas.
#pragma once

#include <cstddef>
#include <span>

#include "reports/data/report.h"

namespace ddpbench::report {

inline constexpr std::size_t kFewestForSteady = 10;  // steps before a series can be called steady

// From the level (median) of one window of step times to that of a later one.
struct LevelChange {
  double ratio = 0;  // later / earlier - 1
  double noise = 0;  // two standard errors of the ratio, from the noise within the windows
  // More than `tolerance` and more than chance.
  bool exceeds(double tolerance) const;
};
// REQUIRES: both windows hold something.
LevelChange level_change(std::span<const double> earlier, std::span<const double> later);

// Whether the series has come to rest at its end: its last window and the one before have the same
// level, within 2 % or what their own noise lets expect. A window is a quarter of the series, 5 to
// 25 steps. False for fewer than kFewestForSteady steps.
bool is_steady(std::span<const double> step_s);

// Relative change from the first to the last third of a run's timed steps; missing, with the
// reason, when there are too few or the change is not beyond chance.
Figure step_drift(std::span<const double> step_s);

}  // namespace ddpbench::report
