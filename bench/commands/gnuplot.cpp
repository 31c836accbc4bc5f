// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/gnuplot.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddpbench::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Both ends of a channel; ours does not block.
class Channel {
 public:
  Channel() {
    // A socket: writing to one whose reader has gone can be told not to raise SIGPIPE.
    ensure(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_.data()) == 0,
           "no channel to gnuplot: {}", std::strerror(errno));
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Channel() {
    close(0);
    close(1);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int ours() const { return ends_[0]; }
  int theirs() const { return ends_[1]; }
  void close_ours() { close(0); }
  void close_theirs() { close(1); }

 private:
  void close(std::size_t end) {
    if (ends_[end] >= 0) ::close(ends_[end]);
    ends_[end] = -1;
  }
  std::array<int, 2> ends_{-1, -1};
};

// The process's variables, but for the locale: scripts are UTF-8, and in a locale of another
// encoding, or of none, gnuplot complains of characters that it does not even draw.
class Utf8Environment {
 public:
  Utf8Environment() {
    for (char** entry = ::environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with("LC_ALL=")) pointers_.push_back(*entry);
    }
    pointers_.push_back(locale_.data());
    pointers_.push_back(nullptr);
  }
  char** data() { return pointers_.data(); }

 private:
  std::string locale_ = "LC_ALL=C.UTF-8";  // part of the C library
  std::vector<char*> pointers_;
};

// Started on construction; ended, when it still runs, on destruction.
class Gnuplot {
 public:
  Gnuplot() {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input_.theirs(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output_.theirs(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, errors_.theirs(), STDERR_FILENO);
    std::array<std::string, 3> words = {"gnuplot", "--default-settings", "-"};
    std::array<char*, 4> argv = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    const int code =
        ::posix_spawnp(&pid_, "gnuplot", &actions, nullptr, argv.data(), Utf8Environment().data());
    ::posix_spawn_file_actions_destroy(&actions);
    if (code != 0) {
      pid_ = -1;
      throw UnavailableError(fmt::format(
          "pictures need gnuplot, which cannot be started: {}; install it (Debian: apt install "
          "gnuplot-nox)",
          std::strerror(code)));
    }
    input_.close_theirs();
    output_.close_theirs();
    errors_.close_theirs();
  }
  ~Gnuplot() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Gnuplot(const Gnuplot&) = delete;
  Gnuplot& operator=(const Gnuplot&) = delete;

  // Sends `script` and reads until both outputs are closed. False when the deadline passed.
  bool converse(std::string_view script, Clock::time_point deadline) {
    bool output_open = true, errors_open = true;
    while (output_open || errors_open) {
      std::array<pollfd, 3> ends = {{{output_open ? output_.ours() : -1, POLLIN, 0},
                                     {errors_open ? errors_.ours() : -1, POLLIN, 0},
                                     {input_.ours(), POLLOUT, 0}}};
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return false;
      if (::poll(ends.data(), ends.size(), static_cast<int>(left)) < 0 && errno != EINTR) {
        throw InternalError(fmt::format("waiting for gnuplot: {}", std::strerror(errno)));
      }
      if (ends[0].revents != 0) output_open = receive(output_, picture);
      if (ends[1].revents != 0) errors_open = receive(errors_, complaints);
      if (ends[2].revents != 0) send(script);
    }
    return true;
  }

  // Exit status as of waitpid.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }

  std::string picture, complaints;

 private:
  // False at the end.
  static bool receive(const Channel& from, std::string& text) {
    std::array<char, 65536> block;
    const ssize_t count = ::read(from.ours(), block.data(), block.size());
    if (count > 0) text.append(block.data(), static_cast<std::size_t>(count));
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void send(std::string_view& script) {
    const ssize_t count = ::send(input_.ours(), script.data(), script.size(), MSG_NOSIGNAL);
    if (count > 0) script.remove_prefix(static_cast<std::size_t>(count));
    const bool again = count < 0 && (errno == EAGAIN || errno == EINTR);
    // Also when it went without reading everything: its exit says why.
    if (!again && (count <= 0 || script.empty())) input_.close_ours();
  }

  Channel input_, output_, errors_;
  pid_t pid_ = -1;
};

}  // namespace

std::string run_gnuplot(const std::string& script, std::chrono::milliseconds deadline) {
  Gnuplot gnuplot;
  if (!gnuplot.converse(script, Clock::now() + deadline)) {
    throw InternalError(fmt::format("gnuplot was not done after {} ms and was ended; {}",
                                    deadline.count(), gnuplot.complaints));
  }
  const int status = gnuplot.wait();
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (good && gnuplot.complaints.empty() && !gnuplot.picture.empty()) {
    return std::move(gnuplot.picture);
  }
  const std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                            : fmt::format("signal {}", WTERMSIG(status));
  throw InternalError(fmt::format("gnuplot drew no picture ({}): {}", how, gnuplot.complaints));
}

}  // namespace ddpbench::bench
