// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <regex>
#include <span>

#include "base/text.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

[[noreturn]] void fail_standard_output(int code) {
  throw ConfigError(fmt::format("cannot write to standard output{}{}", code != 0 ? ": " : "",
                                code != 0 ? std::strerror(code) : ""));
}

bool quiet = false;

// A signal handler can reach nothing but a global. Any thread may be interrupted, and any may ask.
std::atomic<int> requested = 0;  // the signal
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may set no other");

void on_signal(int number) { requested = number; }

// Async-signal-safe calls only.
void on_lost_reader(int number) {
  const int error = errno;
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
    pollfd state{output, POLLOUT, 0};
    if (::poll(&state, 1, 0) != 1 || (state.revents & POLLERR) == 0) continue;
    const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing < 0) continue;
    ::dup2(nothing, output);
    ::close(nothing);
  }
  requested = number;
  errno = error;
}

}  // namespace

void be_quiet() { quiet = true; }
bool is_quiet() { return quiet; }

int terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 0) {
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  }
  const std::string wanted = launch::environment_variable("COLUMNS").value_or("0");
  return std::max(number_in<int>(wanted).value_or(0), 0);
}

void put(std::FILE* file, const std::string& text) noexcept {
  const std::string shown = file == stderr ? message_of(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), file);
}

bool writes_to_terminal() {
  return ::isatty(STDOUT_FILENO) != 0 && !launch::has_terminal_of_mpirun();
}

bool has_colours() {
  return writes_to_terminal() && launch::environment_variable("NO_COLOR").value_or("").empty() &&
         launch::environment_variable("TERM") != "dumb";
}

// Colours words that are cells, or the first word of a line, and no part of a sentence. Cells are
// two spaces apart; the number of a footnote may follow: "NO(1)", "failed (2)".
std::string coloured(const std::string& table) {
  static const std::regex kRed(
      R"((^|\n|  )(NO|failed|diverged|REGRESSED|FAILED)(?= ?\(\d+\)|  |\n|$))");
  static const std::regex kYellow(R"((^|\n|  )(INCONCLUSIVE|interrupted)(?= ?\(\d+\)|  |\n|$))");
  std::string text = std::regex_replace(table, kRed, "$1\x1b[1;31m$2\x1b[0m");
  return std::regex_replace(text, kYellow, "$1\x1b[33m$2\x1b[0m");
}

void say_table(const std::string& table) { say("{}", has_colours() ? coloured(table) : table); }

std::string cut_to_columns(const std::string& text, std::size_t columns) {
  if (columns == 0 || display_width(text) <= columns) return text;
  std::size_t bytes = text.size();
  std::string_view kept = text;
  while (display_width(kept) + 1 > columns && bytes > 0) kept = cut_at_character(text, --bytes);
  return std::string(kept) + "\u2026";
}

void StatusLine::draw(const std::string& text) {
  // The last column stays free, because some terminals go to the next line after it.
  const auto columns = static_cast<std::size_t>(std::max(terminal_width() - 1, 0));
  const std::string line = cut_to_columns(printable(text), columns);
  const std::size_t width = display_width(line);
  const std::size_t before = columns > 0 ? std::min(drawn_, columns) : drawn_;
  say("\r{}{:{}}", line, "", before > width ? before - width : 0);
  drawn_ = width;
  std::fflush(stdout);
}

void StatusLine::clear() {
  draw("");
  say("\r");
  std::fflush(stdout);
}

FileDescriptor take_standard_output() {
  std::fflush(stdout);
  FileDescriptor output(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!output || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) fail_standard_output(errno);
  return output;
}

void write_standard_output(const FileDescriptor& output, std::string_view text) {
  if (const int code = write_all(output, std::as_bytes(std::span(text))); code != 0) {
    fail_standard_output(code);
  }
}

void finish_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  fail_standard_output(errno);
}

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  // Without SA_RESTART, a wait of the supervisor ends at once.
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
  for (const int number : {SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGPIPE}) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    action.sa_handler = number == SIGPIPE ? on_lost_reader : on_signal;
    ::sigaction(number, &action, nullptr);
  }
}

bool interrupt_requested() { return requested != 0; }
int interrupt_signal() { return requested; }

}  // namespace ddpbench::bench
