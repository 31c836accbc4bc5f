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
#include "parallel/launch/guilty_rank.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kKeptErrors = 5;

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

}  // namespace ddpbench::bench
