// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/host_run.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/terminal.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::bench {

// A process of a HostRun.
class HostChild final : public launch::Child {
 public:
  HostChild(HostRun& run, int rank) : run_(run), rank_(rank) {}

  bool alive() const noexcept override { return !state().exit; }
  void watch(std::vector<pollfd>& all) const override { state().link->watch(all); }
  // Waiting for its end, gives its host up when that takes too long.
  const std::optional<launch::ChildExit>& reap(bool block) override {
    run_.look();
    for (const double until_s = steady_s() + launch::kLetEnd_s; block && alive(); run_.look()) {
      std::vector<pollfd> watched;
      watch(watched);
      ::poll(watched.data(), watched.size(), kLookAtAgentsMs);
      if (steady_s() < until_s) continue;
      state().link->give_up(fmt::format("{}: it does not answer", state().link->words()));
    }
    return state().exit;
  }
  void signal(int number) const noexcept override {
    if (alive()) state().link->send(AgentSignal{state().number, number});
  }
  bool is_stopped() const override { return state().stopped; }
  std::string host() const override { return state().host; }
  std::string lost() const override { return state().lost; }
  double clock_ahead_s() const override { return state().link->clock_ahead_s(); }

 private:
  HostRun::State& state() const { return run_.of(rank_); }

  HostRun& run_;
  int rank_;
};

HostRun::HostRun(std::vector<HostLink*> links, std::vector<HostProcess> processes,
                 launch::RankChannels& channels, double timeout_s)
    : links_(std::move(links)), channels_(channels), timeout_s_(timeout_s), clock_(steady_s()) {
  for (HostProcess& process : processes) states_.push_back({std::move(process), {}, {}, {}});
  for (HostLink* const link : links_) link->forgive(steady_s() - link->heard_s());
}

launch::Children HostRun::children() {
  launch::Children all;
  for (int rank = 0; rank < std::ssize(states_); ++rank) {
    all.push_back(std::make_unique<HostChild>(*this, rank));
  }
  return all;
}

// Also of hosts that have no rank of this run, so that what they say does not pile up.
void HostRun::look() {
  const double now_s = steady_s();
  const double pause_s = clock_.look(now_s);
  for (HostLink* const link : links_) {
    link->forgive(pause_s);
    link->look(now_s);
    while (const auto word = link->next()) hear(*link, *word);
  }
  miss_silent_hosts(now_s);
  for (State& state : states_) {
    if (!state.link->lost().empty()) lose(state, state.link->lost());
  }
}

void HostRun::lose(State& state, const std::string& why) {
  if (state.exit) return;
  state.lost = why;
  state.exit = launch::ChildExit{.is_known = false};
}

void HostRun::hear(HostLink& link, const AgentWord& word) {
  for (std::size_t rank = 0; rank < states_.size(); ++rank) {
    State& state = states_[rank];
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
      say_error("[{}, rank {}] {}\n", state.host, rank, printable(line->text));
    } else if (const auto* const end = std::get_if<RankEnd>(&word)) {
      if (!is_of_it(end->rank)) continue;
      state.exit = end->exit;
      state.note = end->note;
    } else if (const auto* const refusal = std::get_if<RankRefusal>(&word)) {
      if (!is_of_it(refusal->rank)) continue;
      state.refusal_code = refusal->exit_code;
      lose(state, fmt::format("{}: rank {} cannot be started: {}", link.words(), rank,
                              printable(refusal->why)));
    }
  }
}

void HostRun::explain(launch::RunFailure& failure) const {
  if (failure.rank < 0) return;
  const State& state = of(failure.rank);
  if (!state.note.empty()) failure.error.message += "; " + state.note;
  if (state.refusal_code != 0) failure.error.exit_code = state.refusal_code;
}

void HostRun::miss_silent_hosts(double now_s) {
  if (timeout_s_ <= 0) return;
  constexpr double kHeartbeats_s = 3;  // three of them
  const double limit_s =
      std::max(timeout_s_, std::min(timeout_s_ + kHeartbeats_s, launch::kSilence_s));
  for (HostLink* const link : links_) {
    if (!link->lost().empty() || now_s - link->heard_s() < limit_s) continue;
    link->give_up(fmt::format("{}: nothing was heard of it for {:.3g} s (--timeout)", link->words(),
                              limit_s));
  }
}

}  // namespace ddpbench::bench
