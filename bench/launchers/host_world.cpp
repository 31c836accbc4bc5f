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

std::vector<int> hosts_of(const std::vector<HostPlace>& places) {
  std::vector<int> hosts;
  for (const HostPlace& place : places) hosts.push_back(static_cast<int>(place.host));
  return hosts;
}

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
    hear(line);
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
void HostLink::hear(const std::string& line) {
  std::optional<AgentWord> word = read_word(line);
  if (!word) return;
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

HostWorld::HostWorld(std::vector<HostLink*> links, std::vector<HostPlace> places, double timeout_s)
    : links_(std::move(links)),
      places_(std::move(places)),
      timeout_s_(timeout_s),
      outcome_(hosts_of(places_)),
      clock_(steady_s()) {}

void HostWorld::start(std::map<std::string, std::string> variables, int threads_per_device) {
  variables["WORLD_SIZE"] = std::to_string(ranks());
  for (std::size_t host = 0; host < links_.size(); ++host) {
    AgentRun run{.threads_per_device = threads_per_device, .variables = variables, .ranks = {}};
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      if (places_[rank].host != host) continue;
      run.ranks.push_back({static_cast<int>(rank),
                           {{"RANK", std::to_string(rank)},
                            {"LOCAL_RANK", std::to_string(places_[rank].local_rank)}}});
    }
    if (!run.ranks.empty()) links_[host]->send(run);
  }
}

LaunchedRun HostWorld::supervise(const std::function<void()>& tick) {
  for (HostLink* const link : links_) link->forgive(steady_s() - link->heard_s());
  while (!outcome_.all_ended()) {
    look();
    if (tick) tick();
    const double now_s = clock_.looked_s();
    if (!interrupted_ && interrupt_requested()) {
      interrupted_ = true;
      signal_all(SIGTERM);
      limit_.within(now_s, EndLimit::kInterrupted_s);
    }
    if (!failed_ && outcome_.any_failed()) {
      failed_ = true;
      limit_.after_failure(now_s, timeout_s_);
    }
    if (outcome_.any_killed()) limit_.within(now_s, EndLimit::kUnnoticed_s);
    // A rank that is stopped would never end.
    if (!gave_up_ && outcome_.any_gave_up()) {
      gave_up_ = true;
      limit_.within(now_s, EndLimit::kAfterGivingUp_s);
    }
    if (limit_.passed(now_s)) help_to_end(now_s);
  }
  LaunchedRun made = outcome_.conclude(interrupted_);
  name_host(made.error);
  if (made.run) name_host(made.run->error);
  return made;
}

// Ranks that have not met do not know where the others are.
void HostWorld::name_host(std::optional<report::ErrorInfo>& error) {
  if (!error || !error->rank || !error->host.empty()) return;
  const auto rank = static_cast<std::size_t>(*error->rank);
  if (rank >= ranks()) return;
  const HostLink& link = link_of(rank);
  error->host = link.view() != nullptr ? link.view()->name : link.host();
}

// Also of hosts that have no rank of this run, so that what they say does not pile up.
void HostWorld::look() {
  std::vector<pollfd> watched;
  for (const HostLink* const link : links_) link->watch(watched);
  ::poll(watched.data(), watched.size(), kLookAtRunMs);
  const double now_s = steady_s();
  const double pause_s = clock_.look(now_s);
  limit_.move(pause_s);
  for (HostLink* const link : links_) {
    link->forgive(pause_s);
    link->look(now_s);
    while (const auto word = link->next()) hear(*link, *word);
  }
  miss_silent_hosts(now_s);
  lose_ranks();
}

void HostWorld::hear(HostLink& link, const AgentWord& word) {
  if (const auto* const line = std::get_if<RankLine>(&word)) {
    if (!line->is_error) return outcome_.add_output(line->rank, line->text);
    say_error("[{}, rank {}] {}\n", link.host(), line->rank, printable(line->text));
    outcome_.add_error(line->rank, line->text);
  } else if (const auto* const end = std::get_if<RankEnd>(&word)) {
    outcome_.end(end->rank, end->exit);
  } else if (const auto* const refusal = std::get_if<RankRefusal>(&word)) {
    outcome_.lose(refusal->rank, fmt::format("host {}: rank {} cannot be started: {}", link.host(),
                                             refusal->rank, printable(refusal->why)));
  }
}

void HostWorld::miss_silent_hosts(double now_s) {
  if (timeout_s_ <= 0) return;
  const double limit_s = std::max(timeout_s_, kLeastSilence_s);
  for (HostLink* const link : links_) {
    if (!link->lost().empty() || now_s - link->heard_s() < limit_s) continue;
    link->give_up(fmt::format("host {}: nothing was heard of it for {:.3g} s (--timeout)",
                              link->host(), limit_s));
  }
}

void HostWorld::lose_ranks() {
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    const std::string& lost = link_of(rank).lost();
    if (!lost.empty()) outcome_.lose(static_cast<int>(rank), lost);
  }
}

void HostWorld::signal_all(int number) {
  for (HostLink* const link : links_) link->send(AgentSignal{number});
}

// First the ranks, then the agents that do not answer.
void HostWorld::help_to_end(double now_s) {
  limit_.renew(now_s);
  if (!std::exchange(killed_, true)) return signal_all(SIGKILL);
  for (std::size_t rank = 0; rank < ranks(); ++rank) {
    if (outcome_.has_ended(static_cast<int>(rank))) continue;
    link_of(rank).give_up(fmt::format("host {}: it does not answer", link_of(rank).host()));
  }
}

}  // namespace ddpbench::bench
