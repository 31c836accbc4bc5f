// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/terminal.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/guilty_rank.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kKeptErrors = 5;

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

HostLink::HostLink(std::string words, std::unique_ptr<launch::PipedProcess> process,
                   const AgentGreeting& greeting)
    : words_(std::move(words)),
      process_(std::move(process)),
      lost_(),
      heard_s_(launch::unpaused_s()) {
  send(greeting);
}

void HostLink::look() {
  if (!process_) return;
  const bool ended = process_->look();
  for (const std::string& line : process_->take_output()) {
    heard_s_ = launch::unpaused_s();
    hear(line);
    if (!process_) return;  // given up for what it said
  }
  for (const std::string& line : process_->take_errors()) {
    if (view_) say_error("[{}] {}\n", words_, printable(line));
    last_errors_.push_back(printable(line));
    if (last_errors_.size() > kKeptErrors) last_errors_.pop_front();
  }
  if (ended) end();
}

// Lines that are no messages are those of a login shell that greets.
void HostLink::hear(const std::string& line) {
  std::optional<AgentWord> word = read_word(line);
  if (!word) return;
  if (const auto* const heartbeat = std::get_if<AgentHeartbeat>(&*word)) {
    const double ahead_s = heartbeat->clock_s - steady_s();
    clock_ahead_s_ = std::max(clock_ahead_s_.value_or(ahead_s), ahead_s);
  }
  if (const auto* const hello = std::get_if<AgentHello>(&*word)) {
    check_version(hello->version);
  } else if (auto* const view = std::get_if<HostView>(&*word)) {
    if (!view->note.empty()) say_error("[{}] {}\n", view->name, printable(view->note));
    view_ = std::move(*view);
  } else if (const auto* const told = std::get_if<AgentTold>(&*word)) {
    told_to_end_ = told->signal;
  } else if (const auto* const reference = std::get_if<ReferencePlace>(&*word)) {
    reference_handle_ = reference->handle;
  } else {
    words_said_.push_back(std::move(*word));
  }
}

void HostLink::check_version(const std::string& version) {
  constexpr std::string_view kBlanks = " \n";
  if (version == version_text()) return;
  give_up(fmt::format(
      "{}: the program there is another version: {} there, {} here; install the same on all "
      "hosts, or name it with --remote-program",
      words_, printable(std::string(trimmed(version, kBlanks))), trimmed(version_text(), kBlanks)));
}

// The process has ended, or the connection to it, without having been asked to.
void HostLink::end() {
  const launch::ChildExit exit = process_->how_ended();
  std::string how = "the process has ended, or its host cannot be reached";
  if (exit.signal != 0) {
    how = fmt::format("its command ended by {}", launch::signal_name(exit.signal));
  } else if (exit.is_known) {
    how = fmt::format("its command ended with exit code {}", exit.code);
    if (!view_)
      how +=
          " and nothing there answered as ddpbench does (--remote-shell and --remote-program=PATH "
          "name others)";
  }
  const std::string said =
      last_errors_.empty() ? "" : fmt::format(": {}", fmt::join(last_errors_, "; "));
  lost_ = fmt::format("{}: {}; {}{}", words_,
                      view_ ? "the connection is gone" : "it cannot be used", how, said);
  process_.reset();
}

std::optional<AgentWord> HostLink::next() {
  if (words_said_.empty()) return std::nullopt;
  AgentWord word = std::move(words_said_.front());
  words_said_.pop_front();
  return word;
}

void HostLink::give_up(const std::string& why) {
  lost_ = why;
  process_.reset();
}

void listen(std::vector<HostLink>& links) {
  std::vector<pollfd> watched;
  for (const HostLink& link : links) link.watch(watched);
  ::poll(watched.data(), watched.size(), kLookAtAgentsMs);
  for (HostLink& link : links) link.look();
}

void throw_refusal(const HostLink& link, const AgentRefusal& refusal) {
  const std::string message = fmt::format("{}: {}", link.words(), refusal.why);
  if (refusal.exit_code == UnavailableError("").exit_code()) throw UnavailableError(message);
  if (refusal.exit_code == CommError("").exit_code()) throw CommError(message);
  throw ConfigError(message);
}

launch::Children children_on_hosts(std::vector<HostLink>& links, std::vector<HostProcess> processes,
                                   launch::RankChannels& channels, double timeout_s) {
  const std::size_t count = processes.size();
  const auto run = std::make_shared<HostRun>(links, std::move(processes), channels, timeout_s);
  launch::Children all;
  while (all.size() < count) all.push_back(std::make_unique<HostChild>(run, all.size()));
  return all;
}

}  // namespace ddpbench::bench
