// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/launchers/agent_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/host/terminal.h"
#include "parallel/launch/grace_times.h"
#include "parallel/launch/guilty_rank.h"
#include "parallel/launch/piped_process.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kKeptErrors = 5;
constexpr int kLongestWriteMs = static_cast<int>(launch::kSilence_s * 1e3);

class CommandStream final : public AgentStream {
 public:
  CommandStream(const launch::PipedProcess::Spec& spec, std::string words)
      : process_(spec), words_(std::move(words)) {}

  void write(const std::string& text) override { process_.write(text); }
  void close_input() override { process_.close_input(); }
  void watch(std::vector<pollfd>& all) const override { process_.watch(all); }
  bool look() override { return process_.look(); }
  std::vector<std::string> take_output() override { return process_.take_output(); }
  std::vector<std::string> take_errors() override { return process_.take_errors(); }
  std::string end_words(bool answered) override {
    const launch::ChildExit exit = process_.how_ended();
    if (exit.signal != 0)
      return fmt::format("`{}` ended by {}", words_, launch::signal_name(exit.signal));
    return fmt::format("`{}` ended with exit code {}{}", words_, exit.code,
                       answered ? ""
                                : " and nothing there answered as ddpbench does (--remote-shell "
                                  "and --remote-program=PATH name others)");
  }

 private:
  launch::PipedProcess process_;
  std::string words_;
};

class SocketStream final : public AgentStream {
 public:
  explicit SocketStream(FileDescriptor socket)
      : output_(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), input_(std::move(socket)) {}

  void write(const std::string& text) override {
    for (std::string_view rest = text; output_ && !rest.empty();) {
      const ssize_t count = ::send(output_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count > 0) {
        rest.remove_prefix(static_cast<std::size_t>(count));
      } else if (errno == EAGAIN) {
        pollfd ready{output_.get(), POLLOUT, 0};
        if (::poll(&ready, 1, kLongestWriteMs) == 0) give_up();
      } else if (errno != EINTR) {
        give_up();
      }
    }
  }
  void close_input() override {
    if (output_) ::shutdown(output_.get(), SHUT_WR);
  }
  void watch(std::vector<pollfd>& all) const override {
    if (input_.fd() >= 0) all.push_back({input_.fd(), POLLIN, 0});
  }
  bool look() override {
    input_.read();
    if (told_ || input_.fd() >= 0) return false;
    return told_ = true;
  }
  std::vector<std::string> take_output() override { return input_.take(); }
  std::vector<std::string> take_errors() override { return {}; }
  std::string end_words(bool /*answered*/) override {
    return "the process has ended, or its host cannot be reached";
  }

 private:
  void give_up() {
    output_.reset();
    input_.finish();
  }

  FileDescriptor output_;
  launch::LineReader input_;
  bool told_ = false;
};

}  // namespace

std::unique_ptr<AgentStream> agent_behind_command(const std::string& executable,
                                                  const std::vector<std::string>& arguments,
                                                  const std::vector<std::string>& environment,
                                                  const std::string& words) {
  launch::PipedProcess::Spec spec;
  spec.executable = executable;
  spec.arguments = arguments;
  spec.environment = environment;
  spec.has_input = true;
  return std::make_unique<CommandStream>(spec, words);
}

std::unique_ptr<AgentStream> agent_behind_socket(FileDescriptor socket) {
  return std::make_unique<SocketStream>(std::move(socket));
}

HostLink::HostLink(std::string host, std::string words, std::unique_ptr<AgentStream> stream,
                   const AgentGreeting& greeting)
    : host_(std::move(host)),
      words_(std::move(words)),
      stream_(std::move(stream)),
      lost_(),
      heard_s_(steady_s()) {
  send(greeting);
}

void HostLink::look(double now_s) {
  if (!stream_) return;
  const bool ended = stream_->look();
  for (const std::string& line : stream_->take_output()) {
    heard_s_ = now_s;
    hear(line, now_s);
    if (!stream_) return;  // given up for what it said
  }
  for (const std::string& line : stream_->take_errors()) {
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
  if (auto* const view = std::get_if<HostView>(&*word)) {
    hear_view(std::move(*view));
  } else if (const auto* const told = std::get_if<AgentTold>(&*word)) {
    told_to_end_ = told->signal;
  } else if (const auto* const reference = std::get_if<ReferencePlace>(&*word)) {
    reference_handle_ = reference->handle;
  } else {
    words_said_.push_back(std::move(*word));
  }
}

void HostLink::hear_view(HostView view) {
  if (view.version != version_text()) {
    constexpr std::string_view kBlanks = " \n";
    return give_up(fmt::format(
        "{}: the program there is another version: {} there, {} here; install the same on all "
        "hosts, or name it with --remote-program",
        words_, printable(std::string(trimmed(view.version, kBlanks))),
        trimmed(version_text(), kBlanks)));
  }
  if (!view.note.empty()) say_error("[{}] {}\n", view.name, printable(view.note));
  view_ = std::move(view);
}

// The stream has ended without having been asked to.
void HostLink::end() {
  const std::string said =
      last_errors_.empty() ? "" : fmt::format(": {}", fmt::join(last_errors_, "; "));
  lost_ =
      fmt::format("{}: {}; {}{}", words_, view_ ? "the connection is gone" : "it cannot be used",
                  stream_->end_words(view_.has_value()), said);
  stream_.reset();
}

std::optional<AgentWord> HostLink::next() {
  if (words_said_.empty()) return std::nullopt;
  AgentWord word = std::move(words_said_.front());
  words_said_.pop_front();
  return word;
}

void HostLink::give_up(const std::string& why) {
  lost_ = why;
  stream_.reset();
}

void throw_refusal(const HostLink& link, const std::string& error, int exit_code) {
  if (error.empty()) return;
  const std::string message = fmt::format("{}: {}", link.words(), error);
  if (exit_code == UnavailableError("").exit_code()) throw UnavailableError(message);
  if (exit_code == CommError("").exit_code()) throw CommError(message);
  throw ConfigError(message);
}

}  // namespace ddpbench::bench
