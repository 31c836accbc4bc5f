// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/host_link.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/terminal.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/rank_variables.h"
#include "parallel/launch/remote_command.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kKeptErrors = 5;
// What shells say by their exit codes (POSIX): the program is not there, or cannot be executed.
constexpr int kNotFound = 127, kNotExecutable = 126;

// How a remote shell has ended that was not asked to. `answered`: the program behind it had spoken.
std::string end_words(const launch::ChildExit& exit, bool answered) {
  if (exit.signal != 0) return "ended by " + launch::signal_name(exit.signal);
  std::string words = fmt::format("ended with exit code {}", exit.code);
  if (exit.code == kNotFound || exit.code == kNotExecutable) {
    words +=
        " (the remote shell or the program is not there: --remote-shell and "
        "--remote-program=PATH name others)";
  } else if (exit.code == 0 && !answered) {
    words +=
        " and nothing there answered as ddpbench does (--remote-program=PATH names it on the "
        "hosts)";
  }
  return words;
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

void HostLink::send(const AgentOrder& order) {
  if (shell_) shell_->write(order_line(order));
}

void HostLink::watch(std::vector<pollfd>& all) const {
  if (shell_) shell_->watch(all);
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

void HostLink::close() {
  if (shell_) shell_->close_input();
}

void HostLink::give_up(const std::string& why) {
  lost_ = why;
  shell_.reset();
}

}  // namespace ddpbench::bench
