// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostLink: a supervisor's connection to its agent on one host, through a remote shell. HostRun:
// the processes of one run on the hosts, as children of their supervisor.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/launchers/agent_messages.h"
#include "parallel/launch/piped_process.h"
#include "parallel/launch/rank_channel.h"
#include "parallel/launch/supervisor.h"

namespace ddpbench::bench {

// How agents are started.
struct AgentStart {
  std::string remote_shell;  // a command with arguments
  std::string program;       // on the host
  AgentGreeting greeting;
};

class HostLink {
 public:
  // Starts the remote shell, and does not wait for the host. Throws UnavailableError where no
  // process can be started.
  HostLink(std::string host, const AgentStart& start);

  const std::string& host() const { return host_; }
  // What the host has said of itself; null: it has not yet.
  const HostView* view() const { return view_ ? &*view_ : nullptr; }
  // Why it cannot be used (any more); empty: it can, or is not known yet.
  const std::string& lost() const { return lost_; }

  void send(const AgentOrder& order) {
    if (shell_) shell_->write(order_line(order));
  }
  // Adds what to wait for until look() has something new.
  void watch(std::vector<pollfd>& all) const {
    if (shell_) shell_->watch(all);
  }
  // Hears what has come. Prints what the host writes to stderr, once it is there.
  void look(double now_s);
  // The next of what the agent and its ranks have said and done.
  std::optional<AgentWord> next();
  // When the host was last heard. forgive() adds the time in which this process was stopped.
  double heard_s() const { return heard_s_; }
  void forgive(double seconds) { heard_s_ += seconds; }
  // How far its monotonic clock is ahead of ours, less what its quickest message took.
  double clock_ahead_s() const { return clock_ahead_s_.value_or(0); }
  // Lets the agent end by itself, until has_closed() or until this object is destroyed.
  void close() {
    if (shell_) shell_->close_input();
  }
  bool has_closed() const { return shell_ == nullptr; }
  // Gives the host up: its agent and all ranks there end.
  void give_up(const std::string& why);

 private:
  void hear(const std::string& line, double now_s);
  void end();

  std::string host_;
  std::string remote_shell_;
  std::unique_ptr<launch::PipedProcess> shell_;
  std::optional<HostView> view_;
  std::string lost_;
  std::deque<std::string> last_errors_;  // of the shell, before the host is there
  std::deque<AgentWord> words_;
  double heard_s_;
  std::optional<double> clock_ahead_s_;
};

// A process of a run on the hosts.
struct HostProcess {
  HostLink* link = nullptr;
  int number = 0;    // that the agent knows it by
  std::string host;  // its host's name in reports
};

class HostRun {
 public:
  // `processes`: [rank of `channels`]. `channels` and the links, which are those of all hosts,
  // outlive it. A host that says nothing for `timeout_s`, and 10 s at least, is given up; 0: never.
  HostRun(std::vector<HostLink*> links, std::vector<HostProcess> processes,
          launch::RankChannels& channels, double timeout_s);

  // One for each process; they use this object.
  launch::Children children();
  // Hears all hosts: the records of ranks arrive in the channels.
  void look();
  // What a host has said of the end of a process; empty: nothing.
  const std::string& note(int rank) const { return of(rank).note; }

 private:
  friend class HostChild;
  struct State : HostProcess {
    std::optional<launch::ChildExit> exit;
    std::string lost;  // why it cannot be reached, or was never started
    std::string note;
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
