// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostLink: a supervisor's connection to its agent on one host, through a remote shell. HostWorld:
// the ranks of one run on the hosts, as their supervisor sees them.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/launchers/agent_messages.h"
#include "bench/launchers/host_list.h"
#include "bench/launchers/launched_run.h"
#include "parallel/launch/piped_process.h"
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
  // The next of what ranks have said and done.
  std::optional<AgentWord> next();
  // When the host was last heard. forgive() adds the time in which this process was stopped.
  double heard_s() const { return heard_s_; }
  void forgive(double seconds) { heard_s_ += seconds; }
  // Lets the agent end by itself, until has_closed() or until this object is destroyed.
  void close() {
    if (shell_) shell_->close_input();
  }
  bool has_closed() const { return shell_ == nullptr; }
  // Gives the host up: its agent and all ranks there end.
  void give_up(const std::string& why);

 private:
  void hear(const std::string& line);
  void end();

  std::string host_;
  std::string remote_shell_;
  std::unique_ptr<launch::PipedProcess> shell_;
  std::optional<HostView> view_;
  std::string lost_;
  std::deque<std::string> last_errors_;  // of the shell, before the host is there
  std::deque<AgentWord> words_;
  double heard_s_;
};

class HostWorld {
 public:
  // `links`: of all hosts, of which places[rank].host has the rank. The hosts are there.
  HostWorld(std::vector<HostLink*> links, std::vector<HostPlace> places, double timeout_s);

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
  std::vector<HostPlace> places_;
  double timeout_s_;
  RunOutcome outcome_;
  EndLimit limit_;
  launch::PauseLog clock_;
  bool interrupted_ = false, failed_ = false, gave_up_ = false, killed_ = false;
};

}  // namespace ddpbench::bench
