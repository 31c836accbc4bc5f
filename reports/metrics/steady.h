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

// The change from the level (median) of one window of step times to that of a later one.
struct LevelChange {
  double ratio = 0;  // later / earlier - 1
  double noise = 0;  // two standard errors of the ratio, from the noise within the windows
  // Whether the change is larger than `tolerance` and than chance explains.
  bool exceeds(double tolerance) const;
};
// REQUIRES: neither window is empty.
LevelChange level_change(std::span<const double> earlier, std::span<const double> later);

// Whether the series is steady at its end: its last window and the one before have the same level,
// within 2 % or what their noise explains. A window is a quarter of the series, 5 to 25 steps.
// False for fewer than kFewestForSteady steps.
bool is_steady(std::span<const double> step_s);

// The relative change from the first third of a run's timed steps to the last. It is missing, with
// the reason, when there are too few steps or the change is within chance.
Figure step_drift(std::span<const double> step_s);

}  // namespace ddpbench::report
