// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The processes of one run that agents started, as children of their supervisor.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "bench/launchers/agent_link.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::bench {
namespace {

// What is known of a process.
struct ProcessState : HostProcess {
  std::optional<launch::ChildExit> exit = {};
  std::string lost = {};  // why it cannot be reached, or was never started
  std::string note = {};
  int refusal_code = 0;  // the exit code, where its host could not start it
  bool stopped = false;
};

// What all children of a run share: they hear all hosts together.
class HostRun {
 public:
  HostRun(std::vector<HostLink>& links, std::vector<HostProcess> processes,
          launch::RankChannels& channels, double timeout_s)
      : links_(links), channels_(channels), timeout_s_(timeout_s) {
    for (HostProcess& process : processes) states_.push_back({std::move(process)});
  }

  ProcessState& of(std::size_t place) { return states_.at(place); }
  // The records of ranks arrive in the channels.
  void look();

 private:
  void hear(HostLink& link, const AgentWord& word);
  void lose(ProcessState& state, const std::string& why);
  void miss_silent_hosts();

  std::vector<HostLink>& links_;
  std::vector<ProcessState> states_;
  launch::RankChannels& channels_;
  const double timeout_s_, begin_s_ = launch::unpaused_s();
};

class HostChild final : public launch::Child {
 public:
  HostChild(std::shared_ptr<HostRun> run, std::size_t place)
      : run_(std::move(run)), state_(run_->of(place)) {}

  bool alive() const noexcept override { return !state_.exit; }
  void watch(std::vector<pollfd>& all) const override { state_.link->watch(all); }
  // Waiting for its end, gives its host up when that takes too long.
  const std::optional<launch::ChildExit>& reap(bool block) override {
    run_->look();
    for (const double until_s = steady_s() + launch::kLetEnd_s; block && alive(); run_->look()) {
      std::vector<pollfd> watched;
      watch(watched);
      ::poll(watched.data(), watched.size(), kLookAtAgentsMs);
      if (steady_s() < until_s) continue;
      state_.link->give_up(fmt::format("{}: it does not answer", state_.link->words()));
    }
    return state_.exit;
  }
  void signal(int number) const noexcept override {
    if (alive()) state_.link->send(AgentSignal{state_.number, number});
  }
  bool is_stopped() const override { return state_.stopped; }
  std::string host() const override { return state_.host; }
  int rank(int) const override { return state_.rank; }
  std::string lost() const override { return state_.lost; }
  double clock_ahead_s() const override { return state_.link->clock_ahead_s(); }
  void explain(launch::RunFailure& failure) const override {
    if (!state_.note.empty()) failure.error.message += "; " + state_.note;
    if (state_.refusal_code != 0) failure.error.exit_code = state_.refusal_code;
  }

 private:
  const std::shared_ptr<HostRun> run_;
  ProcessState& state_;
};

// Also of hosts that have no rank of this run, so that what they say does not pile up.
void HostRun::look() {
  for (HostLink& link : links_) {
    link.look();
    while (const auto word = link.next()) hear(link, *word);
  }
  miss_silent_hosts();
  for (ProcessState& state : states_) {
    if (!state.link->lost().empty()) lose(state, state.link->lost());
  }
}

void HostRun::lose(ProcessState& state, const std::string& why) {
  if (state.exit) return;
  state.lost = why;
  state.exit = launch::ChildExit{.is_known = false};
}

void HostRun::hear(HostLink& link, const AgentWord& word) {
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    ProcessState& state = states_[rank];
    if (state.link != &link) continue;
    const auto is_of_it = [&](int number) { return number == state.number; };
    if (const auto* const heartbeat = std::get_if<AgentHeartbeat>(&word)) {
      state.stopped = std::ranges::count(heartbeat->stopped, state.number) > 0;
    } else if (const auto* const records = std::get_if<RankNews>(&word)) {
      if (!is_of_it(records->rank)) continue;
      try {
        launch::apply_mirrored(records->bytes, channels_.area(static_cast<int>(rank)));
      } catch (const CommError& error) {
        link.give_up(fmt::format("{}: {}", link.words(), error.what()));
      }
    } else if (const auto* const line = std::get_if<RankLine>(&word)) {
      if (!is_of_it(line->rank)) continue;
      say_error("[{}, rank {}] {}\n", state.host, state.rank, printable(line->text));
    } else if (const auto* const end = std::get_if<RankEnd>(&word)) {
      if (!is_of_it(end->rank)) continue;
      state.exit = end->exit;
      state.note = end->note;
    } else if (const auto* const refusal = std::get_if<AgentRefusal>(&word)) {
      if (!is_of_it(refusal->rank)) continue;
      state.refusal_code = refusal->exit_code;
      lose(state, fmt::format("{}: rank {} cannot be started: {}", link.words(), state.rank,
                              printable(refusal->why)));
    }
  }
}

void HostRun::miss_silent_hosts() {
  if (timeout_s_ <= 0) return;
  constexpr double kHeartbeats_s = 3 * launch::kHeartbeatEvery_s;
  const double limit_s =
      std::max(timeout_s_, std::min(timeout_s_ + kHeartbeats_s, launch::kSilence_s));
  for (HostLink& link : links_) {
    const double silent_s = launch::unpaused_s() - std::max(begin_s_, link.heard_s());
    if (link.is_lost() || silent_s < limit_s) continue;
    link.give_up(
        fmt::format("{}: nothing was heard of it for {:.3g} s (--timeout)", link.words(), limit_s));
  }
}

}  // namespace

launch::Children children_on_hosts(std::vector<HostLink>& links, std::vector<HostProcess> processes,
                                   launch::RankChannels& channels, double timeout_s) {
  const std::size_t count = processes.size();
  const auto run = std::make_shared<HostRun>(links, std::move(processes), channels, timeout_s);
  launch::Children all;
  while (all.size() < count) all.push_back(std::make_unique<HostChild>(run, all.size()));
  return all;
}

}  // namespace ddpbench::bench
