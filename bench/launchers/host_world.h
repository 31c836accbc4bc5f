// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostWorld: the ranks of one run on the hosts, as their supervisor sees them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/launchers/end_limit.h"
#include "bench/launchers/host_link.h"
#include "bench/launchers/run_outcome.h"
#include "parallel/launch/host_list.h"
#include "parallel/launch/pause_log.h"

namespace ddpbench::bench {

class HostWorld {
 public:
  // `links`: of all hosts, of which places[rank].host has the rank. The hosts are there.
  HostWorld(std::vector<HostLink*> links, std::vector<launch::RankPlace> places, double timeout_s);

  // Starts the ranks; `variables` are those of all.
  void start(std::map<std::string, std::string> variables, int threads_per_device);
  // Returns when all ranks have ended. A signal to this process ends them, and so does the loss of
  // a host, or of a rank that the others do not notice within --timeout.
  LaunchedRun supervise(const std::function<void()>& tick);

 private:
  std::size_t ranks() const { return places_.size(); }
  HostLink& link_of(std::size_t rank) { return *links_.at(places_.at(rank).host); }
  void look();
  void hear(HostLink& link, const AgentWord& word);
  void lose_ranks();
  void miss_silent_hosts(double now_s);
  void signal_all(int number);
  void help_to_end(double now_s);
  void name_host(std::optional<report::ErrorInfo>& error);

  std::vector<HostLink*> links_;
  std::vector<launch::RankPlace> places_;
  double timeout_s_;
  RunOutcome outcome_;
  EndLimit limit_;
  launch::PauseLog clock_;
  bool interrupted_ = false, failed_ = false, gave_up_ = false, killed_ = false;
};

}  // namespace ddpbench::bench
