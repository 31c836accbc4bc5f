// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/piped_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"
#include "parallel/launch/grace_times.h"

namespace ddpbench::launch {

std::vector<std::string> shell_arguments(const std::string& command,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"sh", "-c", fmt::format("exec {} \"$@\"", command), "ddpbench"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::string remote_command(const std::string& program, std::string_view word) {
  return fmt::format("exec {} {}", shell_quoted(program), word);
}

namespace {

// The longest honest line is a report, or a message with the settings of a run.
constexpr std::size_t kLongestLine = 64 * kMiB;

struct Ends {
  FileDescriptor own, child;
};

Ends make_ends(bool are_sockets) {
  std::array<int, 2> ends{};
  const int failed = are_sockets ? ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data())
                                 : ::pipe2(ends.data(), O_CLOEXEC);
  if (failed != 0) throw_system_error<InternalError>("cannot make a pipe to a process", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

}  // namespace

LineReader::LineReader(FileDescriptor file) : file_(std::move(file)) {
  ::fcntl(file_.get(), F_SETFL, O_NONBLOCK);
}

void LineReader::read() {
  std::array<char, 65536> piece{};
  while (file_) {
    const ssize_t count = ::read(file_.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return finish();
    std::string_view rest(piece.data(), static_cast<std::size_t>(count));
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      unfinished_ += rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      if (end == std::string_view::npos && unfinished_.size() < kLongestLine) break;
      lines_.push_back(std::exchange(unfinished_, ""));
    }
  }
}

void LineReader::finish() {
  file_.reset();
  if (!unfinished_.empty()) lines_.push_back(std::exchange(unfinished_, ""));
}

PipedProcess::PipedProcess(const Spec& spec) {
  Ends output = make_ends(false), errors = make_ends(false);
  Ends input;
  if (spec.has_input) input = make_ends(true);
  ChildSpec child = spec;
  child.input_fd = input.child.get();
  child.output_fd = output.child.get();
  child.error_fd = errors.child.get();
  process_.emplace(child);
  input_ = std::move(input.own);
  output_ = LineReader(std::move(output.own));
  errors_ = LineReader(std::move(errors.own));
  process_->confirm(static_cast<int>(kSilence_s * 1e3));
}

PipedProcess::PipedProcess(FileDescriptor socket)
    : input_(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0)), output_(std::move(socket)) {}

bool PipedProcess::write(std::string_view text) {
  while (input_ && !text.empty()) {
    const ssize_t count =
        ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) {
      text.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    pollfd ready{input_.get(), POLLOUT, 0};
    constexpr int kLongestMs = static_cast<int>(kSilence_s * 1e3);
    if (errno == EINTR || (errno == EAGAIN && ::poll(&ready, 1, kLongestMs) != 0)) continue;
    input_.reset();
    if (!process_) output_.finish();
  }
  return static_cast<bool>(input_);
}

void PipedProcess::close_input() {
  if (input_) ::shutdown(input_.get(), SHUT_WR);
}

void PipedProcess::watch(std::vector<pollfd>& all) const {
  for (const int fd : {output_.fd(), errors_.fd()}) {
    if (fd >= 0) all.push_back({fd, POLLIN, 0});
  }
  if (process_) process_->watch(all);
}

bool PipedProcess::look() {
  bool ended = process_ && process_->reap().has_value();
  output_.read();
  errors_.read();
  if (!process_) ended = output_.fd() < 0;
  if (!ended || told_) return false;
  // Another process may have its end of the pipes and live on.
  output_.finish();
  errors_.finish();
  return told_ = true;
}

ChildExit PipedProcess::how_ended() {
  constexpr ChildExit kUnknown{.is_known = false};
  return process_ ? process_->reap().value_or(kUnknown) : kUnknown;
}

}  // namespace ddpbench::launch
