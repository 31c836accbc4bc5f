// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// What `ddpbench tune` concludes from its runs (docs/metrics.md): a candidate found by a screening
// of many settings, judged against the default by fresh runs, since the best of many looks better
// than it is.
#pragma once

#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// `ratios`: candidate's step time / default's, one a round in which both ran. Sets gain_ratio (one
// minus their median), its 95 % interval, and recommended: the whole interval is a gain, and the
// gain is at least tune.least_gain_ratio. Figures are missing, with the reason, for fewer than
// kFewestForInterval rounds.
void judge_gain(Tune& tune, std::vector<double> ratios);

// "first bucket 0.2 MiB, bucket cap 0.4 MiB, overlap on".
std::string describe(const TuneSetting& setting);

// The recommendation, or that there is none and why, in a sentence or two.
std::string conclude(const Tune& tune);

}  // namespace ddpbench::report
