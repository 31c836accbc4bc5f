// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Which settings do the same work and so can be compared (docs/metrics.md, "What competes"), and
// the conclusion of `ddpbench tune`.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/data/settings.h"

namespace ddpbench::report {

// The repetitions of one setting.
struct Standing {
  std::vector<RunRow> runs;  // not empty
  std::string name;          // "ddp on 2 devices (overlap off)": tells it from the others
  double samples_per_s = 0;  // the median over the repetitions
};

std::vector<double> rates_of(const Standing& standing);  // samples/s of its runs

// Settings of one report that compete: equal network and data (in name and content), global batch,
// precision, kind of device and threads a device.
struct Contest {
  Settings work;  // what they have in common
  // The exact ones, and beside them the approximate ones, which are never ranked with these; each
  // the fastest first. One of the two may be empty.
  std::vector<Standing> standings, approximate;
};

// The contests of the runs that ended well, agree with one device and have no planted fault. Where
// a contest has runs that are not oversubscribed, those that are take no part. In the order of the
// work's first run. Points into what `rows` point into. REQUIRES: the rows are of one report.
std::vector<Contest> contests(std::span<const RunRow> rows);

// Whether their losses, and the optimizer's memory, can be compared.
bool has_same_optimizer(const Run& a, const Run& b);

// "38 % faster than the fastest exact run, loss 1.92 after the same samples (exact 1.83), 4.0 %
// from the reference": what is known of one of contest.approximate beside the fastest exact one.
// `sure` comes behind the first part.
std::string approximate_words(const Contest& contest, const Standing& standing,
                              std::string_view sure = "");

std::string lead_percent(double ratio);  // "12" or "1.3", as far as a difference can be known

// The conclusion of `ddpbench tune` from its runs (docs/metrics.md). A screening of many settings
// finds a candidate. Fresh runs then judge it against the default, since the best of many looks
// better than it is.

// `ratios`: step time of the candidate / that of the default, one for each round in which both ran.
// Sets gain_ratio (1 - their geometric mean), its 95 % interval, and recommended, which needs a
// gain of at least tune.least_gain_ratio and an interval above 0. The figures are missing, with the
// reason, for fewer than kFewestForInterval rounds.
void judge_gain(Tune& tune, const std::vector<double>& ratios);

// "first bucket 0.2 MiB, bucket cap 0.4 MiB, overlap on".
std::string describe(const TuneSetting& setting);

// The recommendation, or why there is none, in a sentence or two.
std::string conclude(const Tune& tune);

}  // namespace ddpbench::report
