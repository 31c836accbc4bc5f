// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Starts the ranks of one run as fresh processes, watches them, and ends them all as soon as one
// fails or stalls, or the user interrupts. Nothing stays behind: children die with their supervisor
// (PR_SET_PDEATHSIG) and shared memory is memfd.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/comm/store/deadline.h"
#include "parallel/launch/child_process.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::launch {

// The clock of deadlines in seconds: without the time in which this process was stopped (Ctrl-Z,
// SIGSTOP, a debugger), in which no rank can be blamed. To be called several times a second.
inline double unpaused_s() {
  return std::chrono::duration<double>(comm::DeadlineClock::now().time_since_epoch()).count();
}

struct SuperviseOptions {
  double timeout_s = 300;      // without progress of any rank; <= 0: none
  double grace_s = kMoment_s;  // between SIGTERM and SIGKILL
  // Polled often; true ends the run as interrupted.
  std::function<bool()> interrupted;
  // Called about ten times a second with the channels, for the progress line.
  std::function<void(const RankChannels&)> progress;
};

struct SuperviseResult {
  bool interrupted = false;
  std::optional<RunFailure> failure;
  double startup_s = 0;  // from spawn until all ranks were past setup (0 if never)
};

// Spawns `spec.processes()` processes, serves their rendezvous store, and
// returns when all are gone. One process alone needs no store, and so no port. REQUIRES: channels
// has at least spec.ranks ranks. Throws Error only when it cannot start them.
SuperviseResult run_ranks(const LaunchSpec& spec, RankChannels& channels,
                          const SuperviseOptions& options);

// The same of processes that were started from `begin_s` (steady_s()) on: rank r is of process r /
// `ranks_per_process`.
using Children = std::vector<std::unique_ptr<Child>>;
SuperviseResult supervise(Children children, double begin_s, int ranks_per_process,
                          RankChannels& channels, const SuperviseOptions& options);

}  // namespace ddpbench::launch
