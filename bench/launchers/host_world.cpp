// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/host_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/terminal.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// An agent says something every second. A host that is silent for less may be busy.
constexpr double kLeastSilence_s = 10;
constexpr std::size_t kKeptErrors = 5;
constexpr int kLookMs = 50;

// How a remote shell has ended that was not asked to. `answered`: the program behind it had spoken.
std::string end_words(const launch::ChildExit& exit, bool answered) {
  if (exit.signal != 0) return "ended by " + launch::signal_name(exit.signal);
  return fmt::format("ended with exit code {}{}", exit.code,
                     answered ? ""
                              : " and nothing there answered as ddpbench does (--remote-shell and "
                                "--remote-program=PATH name others)");
}

}  // namespace

HostLink::HostLink(std::string host, const AgentStart& start)
    : host_(std::move(host)), remote_shell_(start.remote_shell), heard_s_(steady_s()) {
  launch::PipedProcess::Spec spec;
  spec.executable = "/bin/sh";
  spec.arguments = launch::shell_arguments(
      start.remote_shell, {host_, launch::remote_command(start.program, kAgentWord)});
  spec.environment = launch::child_variables(1, {});
  spec.has_input = true;
  shell_ = std::make_unique<launch::PipedProcess>(spec);
  send(start.greeting);
}

void HostLink::look(double now_s) {
  if (!shell_) return;
  const bool ended = shell_->look();
  for (const std::string& line : shell_->take_output()) {
    heard_s_ = now_s;
    hear(line, now_s);
    if (!shell_) return;  // given up for what it said
  }
  for (const std::string& line : shell_->take_errors()) {
    if (view_) say_error("[{}] {}\n", host_, printable(line));
    last_errors_.push_back(printable(line));
    if (last_errors_.size() > kKeptErrors) last_errors_.pop_front();
  }
  if (ended) end();
}

// Lines that are no messages are those of a login shell that greets.
void HostLink::hear(const std::string& line, double now_s) {
  std::optional<AgentWord> word = read_word(line);
  if (!word) return;
  if (const auto* const heartbeat = std::get_if<AgentHeartbeat>(&*word)) {
    const double ahead_s = heartbeat->clock_s - now_s;
    clock_ahead_s_ = std::max(clock_ahead_s_.value_or(ahead_s), ahead_s);
  }
  auto* const view = std::get_if<HostView>(&*word);
  if (view == nullptr) {
    words_.push_back(std::move(*word));
    return;
  }
  if (view->version != version_text()) {
    constexpr std::string_view kBlanks = " \n";
    return give_up(fmt::format(
        "host {}: the program there is another version: {} there, {} here; install the same on all "
        "hosts, or name it with --remote-program",
        host_, printable(std::string(trimmed(view->version, kBlanks))),
        trimmed(version_text(), kBlanks)));
  }
  if (!view->note.empty()) say_error("[{}] {}\n", host_, printable(view->note));
  view_ = std::move(*view);
}

// The remote shell has ended without having been asked to.
void HostLink::end() {
  const std::string said =
      last_errors_.empty() ? "" : fmt::format(": {}", fmt::join(last_errors_, "; "));
  lost_ = fmt::format("host {}: {}; `{} {}` {}{}", host_,
                      view_ ? "the connection is gone" : "it cannot be used", remote_shell_, host_,
                      end_words(shell_->how_ended(), view_.has_value()), said);
  shell_.reset();
}

std::optional<AgentWord> HostLink::next() {
  if (words_.empty()) return std::nullopt;
  AgentWord word = std::move(words_.front());
  words_.pop_front();
  return word;
}

void HostLink::give_up(const std::string& why) {
  lost_ = why;
  shell_.reset();
}

// A process of a HostRun.
class HostChild final : public launch::Child {
 public:
  HostChild(HostRun& run, int rank) : run_(run), rank_(rank) {}

  bool confirm(int /*milliseconds*/) override { return true; }  // a refusal is a loss
  bool alive() const noexcept override { return !state().exit; }
  void watch(std::vector<pollfd>& all) const override { state().link->watch(all); }
  // Waiting for its end, gives its host up when that takes too long.
  const std::optional<launch::ChildExit>& reap(bool block) override {
    constexpr double kLongestEnd_s = 5;  // after SIGKILL: the round trip to the host
    run_.look();
    for (const double until_s = steady_s() + kLongestEnd_s; block && alive(); run_.look()) {
      std::vector<pollfd> watched;
      watch(watched);
      ::poll(watched.data(), watched.size(), kLookMs);
      if (steady_s() < until_s) continue;
      state().link->give_up(fmt::format("host {}: it does not answer", state().link->host()));
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
        link.give_up(fmt::format("host {}: {}", link.host(), error.what()));
      }
    } else if (const auto* const line = std::get_if<RankLine>(&word)) {
      if (!is_of_it(line->rank)) continue;
      say_error("[{}, rank {}] {}\n", link.host(), rank, printable(line->text));
    } else if (const auto* const end = std::get_if<RankEnd>(&word)) {
      if (!is_of_it(end->rank)) continue;
      state.exit = end->exit;
      state.note = end->note;
    } else if (const auto* const refusal = std::get_if<RankRefusal>(&word)) {
      if (!is_of_it(refusal->rank)) continue;
      lose(state, fmt::format("host {}: rank {} cannot be started: {}", link.host(), rank,
                              printable(refusal->why)));
    }
  }
}

void HostRun::miss_silent_hosts(double now_s) {
  if (timeout_s_ <= 0) return;
  const double limit_s = std::max(timeout_s_, kLeastSilence_s);
  for (HostLink* const link : links_) {
    if (!link->lost().empty() || now_s - link->heard_s() < limit_s) continue;
    link->give_up(fmt::format("host {}: nothing was heard of it for {:.3g} s (--timeout)",
                              link->host(), limit_s));
  }
}

}  // namespace ddpbench::bench
