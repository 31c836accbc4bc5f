// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The conclusion of `ddpbench tune` from its runs (docs/metrics.md). A screening of many settings
// finds a candidate. Fresh runs then judge it against the default, since the best of many looks
// better than it is.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// `ratios`: step time of the candidate / that of the default, one for each round in which both ran.
// Sets gain_ratio (1 - their median), its 95 % interval, and recommended, which needs a gain of at
// least tune.least_gain_ratio and an interval above 0. The figures are missing, with the reason,
// for fewer than kFewestForInterval rounds.
void judge_gain(Tune& tune, const std::vector<double>& ratios);

// "first bucket 0.2 MiB, bucket cap 0.4 MiB, overlap on".
std::string describe(const TuneSetting& setting);

// The recommendation, or why there is none, in a sentence or two.
std::string conclude(const Tune& tune);

}  // namespace ddpbench::report
