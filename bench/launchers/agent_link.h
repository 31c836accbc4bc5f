// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// HostLink: a supervisor's connection to one agent, which a command leads to by its standard
// streams (a remote shell, this program), or a socket.
#pragma once

#include <poll.h>

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

// How often a supervisor looks at its agents; what they say wakes it at once.
inline constexpr int kLookAtAgentsMs = 100;

class HostLink {
 public:
  // One that leads nowhere: it is lost.
  HostLink() = default;
  // `words`: in messages ("host b"). Does not wait for the agent.
  HostLink(std::string words, std::unique_ptr<launch::PipedProcess> process,
           const AgentGreeting& greeting);

  const std::string& words() const { return words_; }
  void rename(std::string words) { words_ = std::move(words); }
  // What the host has said of itself; null: it has not yet.
  const HostView* view() const { return view_ ? &*view_ : nullptr; }
  // Why it cannot be used (any more); empty: it can, or is not known yet.
  const std::string& lost() const { return lost_; }
  bool is_lost() const { return !lost_.empty(); }
  // The signal that asked the agent to end; 0: none has.
  int told_to_end() const { return told_to_end_; }
  // Where the host's other agents find the reference that it computed last; empty: nowhere.
  const std::string& reference_handle() const { return reference_handle_; }

  void send(const AgentOrder& order) {
    if (process_) process_->write(order_line(order));
  }
  // Adds what to wait for until look() has something new.
  void watch(std::vector<pollfd>& all) const {
    if (process_) process_->watch(all);
  }
  // Hears what has come. Prints what the host writes to stderr, once it is there.
  void look();
  // The next of what the agent and its ranks have said and done.
  std::optional<AgentWord> next();
  // When the host was last heard, by launch::unpaused_s().
  double heard_s() const { return heard_s_; }
  // How far its monotonic clock is ahead of ours, less what its quickest message took.
  double clock_ahead_s() const { return clock_ahead_s_.value_or(0); }
  // Lets the agent end by itself, until has_closed() or until this object is destroyed.
  void close(const AgentEnd& end) {
    send(end);
    if (process_) process_->close_input();
  }
  bool has_closed() const { return process_ == nullptr; }
  // Gives the host up: its agent and all ranks there end.
  void give_up(const std::string& why);

 private:
  void hear(const std::string& line);
  void check_version(const std::string& version);
  void end();

  std::string words_;
  std::unique_ptr<launch::PipedProcess> process_;
  std::optional<HostView> view_;
  std::string lost_ = "it was not started";
  std::string reference_handle_;
  int told_to_end_ = 0;
  std::deque<std::string> last_errors_;  // of the process, before the agent is there
  std::deque<AgentWord> words_said_;
  double heard_s_ = 0;
  std::optional<double> clock_ahead_s_;
};

// Waits for a moment for what agents say, and hears it.
void listen(std::vector<HostLink>& links);

// Throws what the host says, with its name.
[[noreturn]] void throw_refusal(const HostLink& link, const AgentRefusal& refusal);

// A process of a run on the hosts.
struct HostProcess {
  HostLink* link = nullptr;
  int number = 0;    // that the agent knows it by
  int rank = 0;      // that people know it by
  std::string host;  // its host's name in reports
};

// `processes` ([rank of `channels`]) as children of their supervisor, who hears all hosts by them.
// `channels` and the links, which are those of all hosts, outlive them. A host that says nothing
// for `timeout_s`, and 3 s more (but then 10 s at most), is given up; 0: never.
launch::Children children_on_hosts(std::vector<HostLink>& links, std::vector<HostProcess> processes,
                                   launch::RankChannels& channels, double timeout_s);

}  // namespace ddpbench::bench
