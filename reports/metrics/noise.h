// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// How far the figures of a report can be trusted: which runs were disturbed, and how far runs of
// equal work differ by chance. docs/metrics.md ("The first answer") has the rules.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reports/data/report.h"
#include "reports/data/report_view.h"
#include "reports/metrics/ranking.h"

namespace ddpbench::report {

// What disturbed more than a quarter of the runs ("other programs used 71 % of the CPU"), the first
// of what was noticed; empty: nothing did. Runs without conditions count as undisturbed.
std::string disturbance(std::span<const Run* const> runs);
std::string disturbance(const Standing& standing);

// Sets RunRow::doubt, why a speed-up says nothing: what disturbed the runs or their baseline, or
// that one of the rows with this baseline is faster than so many devices can be. Returns of each
// row the runs by which it is divided.
std::vector<std::vector<const Run*>> mark_doubts(std::span<RunRow> rows);
// RunRow::doubt of each run's setting, over all of its repetitions.
std::map<const Run*, std::string> doubts_of(std::span<const RunRow> rows);
// Whether this speed-up is more than so many devices can gain, by more than their caches explain.
// What one device gains is noise.
bool beyond_ideal(double speedup, int devices);

// Runs of `single`, dp and ddp on one device with equal settings do the same work: how far they
// differ is what chance does here, and nothing smaller is a difference between settings.
struct Yardstick {
  std::set<const Run*> runs;  // of at least two settings; empty: there is none
  double spread = 0;          // the largest median rate of a setting / the smallest - 1
  double least_step_s = 0, most_step_s = 0;
};
// The one with the most runs; an empty one where no contest has two such settings, so that nothing
// but repetitions shows the noise. `of_all`: disturbed settings count, too.
Yardstick find_yardstick(std::span<const Contest> contests, bool of_all = false);

}  // namespace ddpbench::report
