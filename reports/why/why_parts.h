// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The parts of a step, as numbers. Private to reports/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// A run loses nothing worth naming while its losses stay below this share of the step; no advice is
// given for a single loss below it, and no rank blamed for waiting below it.
inline constexpr double kNegligibleShare = 0.05;

// Times of one rank (or of `single`) in a step, seconds; medians.
struct RankTimes {
  double step_s = 0;
  double input_s = 0, forward_s = 0, loss_s = 0, backward_s = 0, optimizer_s = 0;
  double comm_s = 0, comm_exposed_s = 0;
  double wait_s = 0;          // for peers or servers, hidden time included
  double wait_exposed_s = 0;  // the part of it in which neither compute nor a transfer ran
  double compute_s() const { return forward_s + loss_s + backward_s + optimizer_s; }
  double backward_end_s() const { return input_s + forward_s + loss_s + backward_s; }
};

// Ranks that the others wait for beyond what chance explains, and what they do longer.
struct Stragglers {
  std::vector<const DeviceRow*> ranks;
  std::string phase;  // "backward", "input wait"...; empty: every phase is as long as on the others
  double longer_s = 0;  // by how much
};

// Seconds of a step; they add up to step_s.
struct StepParts {
  double step_s = 0;
  double compute_s = 0, compute_slowed_s = 0, overlap_slowed_s = 0;
  double comm_exposed_s = 0, input_wait_s = 0, straggler_wait_s = 0, server_wait_s = 0, host_s = 0;
};

struct Decomposition {
  std::string missing;                // why there are no parts; empty when there are
  std::string no_baseline;            // why there is no baseline; empty when there is one
  RankTimes rank;                     // the rank that is decomposed: the one that waits longest
  const DeviceRow* device = nullptr;  // its row; null when only the run's phases were recorded
  std::optional<RankTimes> ideal;     // single's, divided by the world size in strong scaling
  StepParts parts;
  StepParts lost;  // beyond the ideal; only with it
  Stragglers stragglers;
  double scatter = 0;  // IQR / median of the step times, the larger of the run's and single's
};

// Servers of ps on CPU devices, workers on GPUs: then the two are oversubscribed for themselves.
bool has_cpu_servers(const Run& run);

Decomposition decompose(const Report& report, const Run& run);

}  // namespace ddpbench::report
