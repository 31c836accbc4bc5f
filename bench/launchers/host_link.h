// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostLink: a supervisor's connection to its agent on one host, through a remote shell.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/launchers/agent_messages.h"
#include "parallel/launch/piped_process.h"

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

  void send(const AgentOrder& order);
  // Adds what to wait for until look() has something new.
  void watch(std::vector<pollfd>& all) const;
  // Hears what has come. Prints what the shell or the host writes to stderr, once the host is
  // there.
  void look(double now_s);
  // The next of what ranks have said and done.
  std::optional<AgentWord> next();
  // When the host was last heard. forgive() adds the time in which this process was stopped.
  double heard_s() const { return heard_s_; }
  void forgive(double seconds) { heard_s_ += seconds; }
  // Lets the agent end by itself. This goes on until has_closed(), or until this object is
  // destroyed.
  void close();
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

}  // namespace ddpbench::bench
