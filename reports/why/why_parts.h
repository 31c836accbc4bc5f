// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Splits a step into parts, as numbers. Private to reports/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reports/data/report.h"

namespace ddpbench::report {

// Losses below this share of the step are negligible: all of them together, one alone (no advice),
// and waiting (no rank is blamed).
inline constexpr double kNegligibleShare = 0.05;

// Times of one rank (or of `single`) in a step: medians, in seconds.
struct RankTimes {
  double step_s = 0;
  double input_s = 0, forward_s = 0, loss_s = 0, backward_s = 0, optimizer_s = 0;
  double comm_s = 0, comm_exposed_s = 0;
  double wait_s = 0;          // for peers or servers, including hidden time
  double wait_exposed_s = 0;  // the part in which neither compute nor a transfer ran
  double sync_s = 0;          // statistics of batch norm exchanged, with waiting; beside comm_s
  // What may be waiting for slower ranks: an exchange of statistics is little else.
  double blocked_s() const { return wait_exposed_s + sync_s; }
  double compute_s() const { return forward_s + loss_s + backward_s + optimizer_s; }
  double backward_end_s() const { return input_s + forward_s + loss_s + backward_s; }
};

// The ranks that the others wait for beyond chance, and the phase that is longer there.
struct Stragglers {
  std::vector<const DeviceRow*> ranks;
  std::string phase;    // "backward", "input wait", ...; empty: no phase is longer
  double longer_s = 0;  // by how much the phase is longer
};

// The parts of a step, in seconds. They add up to step_s.
struct StepParts {
  double step_s = 0;
  double compute_s = 0, compute_slowed_s = 0, overlap_slowed_s = 0;
  double comm_exposed_s = 0, sync_batch_norm_s = 0, input_wait_s = 0, straggler_wait_s = 0,
         server_wait_s = 0, host_s = 0;
};

struct Decomposition {
  std::string missing;                // why there are no parts; empty when there are
  std::string no_baseline;            // why there is no baseline; empty when there is one
  RankTimes rank;                     // the rank that is split: the one that waits longest
  const DeviceRow* device = nullptr;  // its row; null if only phases of the whole run are known
  std::optional<RankTimes> ideal;     // single's, divided by the world size in strong scaling
  double least_sync_s = 0;            // RankTimes::sync_s of the device that has the least
  StepParts parts;
  StepParts lost;  // parts - ideal; 0 without an ideal
  Stragglers stragglers;
  // dp: the transfers through the primary ("scatter", seconds); they add up to comm_exposed_s.
  std::vector<std::pair<std::string, double>> transfers;
  double others_idle_s = 0;  // dp: others_idle() of metrics.h; 0: not recorded
  double spread = 0;         // IQR / median of the step times; the larger of the run's and single's
};

// Whether ps servers are on CPU devices and workers on GPUs: each side is oversubscribed on its
// own.
bool has_cpu_servers(const Run& run);

Decomposition decompose(const Report& report, const Run& run);

}  // namespace ddpbench::report
