// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the rank that caused the failure of a run, by what the supervisor has seen.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "parallel/launch/child_process.h"
#include "parallel/launch/rank_records.h"

namespace ddpbench::launch {

// What is known of one rank at one moment.
struct RankView {
  int rank = -1;  // that people know it by; -1: its place among the views
  RankStatus status;
  std::optional<ChildExit> exit;  // once it has ended
  bool stopped = false;           // by SIGSTOP or a debugger
  double last_progress_s = 0;     // when its heartbeat last changed
  std::string host;               // its name, where ranks are on several hosts
  std::string lost;               // why its host is out of reach; empty: it is not
  std::string process_ranks;      // "ranks 2 to 3", where these share its process
};

// "SIGKILL", or "signal 40" where the system has no name for it.
std::string signal_name(int number);

// True when a rank has reported an error, ended with a failure, or is out of reach.
bool has_failed(const RankView& view);

// True when a rank failed because of another: it lost a peer, or a deadline passed while it waited.
bool only_noticed(const RankView& view);

// The failure that can be named at once: that of a rank that died or threw an error of its own.
// nullopt while there is none. REQUIRES: not empty.
std::optional<RunFailure> find_cause(std::span<const RankView> ranks);

// Blames a rank that is stopped, left too early, or (after a deadline) has made the least progress;
// else the first that noticed. REQUIRES: some rank only noticed.
RunFailure blame_for_noticed(std::span<const RankView> ranks);

// The failure of a run that stands still while no rank reports an error. REQUIRES: not empty.
RunFailure blame_for_stall(std::span<const RankView> ranks, double idle_s);

}  // namespace ddpbench::launch
