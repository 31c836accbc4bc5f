// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostRun: the processes of one run that agents started, as children of their supervisor.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/launchers/agent_link.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// A process of a run on the hosts.
struct HostProcess {
  HostLink* link = nullptr;
  int number = 0;    // that the agent knows it by
  std::string host;  // its host's name in reports
};

class HostRun {
 public:
  // `processes`: [rank of `channels`]. `channels` and the links, which are those of all hosts,
  // outlive it. A host that says nothing for `timeout_s`, and 3 s more (but then 10 s
  // at most), is given up; 0: never.
  HostRun(std::vector<HostLink*> links, std::vector<HostProcess> processes,
          launch::RankChannels& channels, double timeout_s);

  // One for each process; they use this object.
  launch::Children children();
  // Hears all hosts: the records of ranks arrive in the channels.
  void look();
  // Adds what a host has said of the end of the process, or of why it was not started.
  void explain(launch::RunFailure& failure) const;

 private:
  friend class HostChild;
  struct State : HostProcess {
    std::optional<launch::ChildExit> exit;
    std::string lost;  // why it cannot be reached, or was never started
    std::string note;
    int refusal_code = 0;  // the exit code, where its host could not start it
    bool stopped = false;
  };
  const State& of(int rank) const { return states_.at(static_cast<std::size_t>(rank)); }
  State& of(int rank) { return states_.at(static_cast<std::size_t>(rank)); }
  void hear(HostLink& link, const AgentWord& word);
  void lose(State& state, const std::string& why);
  void miss_silent_hosts(double now_s);

  std::vector<HostLink*> links_;
  std::vector<State> states_;
  launch::RankChannels& channels_;
  double timeout_s_;
  launch::PauseLog clock_;
};

}  // namespace ddpbench::bench
