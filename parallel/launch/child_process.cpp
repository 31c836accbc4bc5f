// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Between fork and exec only async-signal-safe calls are made. The supervisor has another thread
// (the rendezvous store's), which may hold any lock at that moment.
#include "parallel/launch/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/ranges.h"

namespace ddpbench::launch {

bool is_process_stopped(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  // "pid (name) state ...", where the name may hold anything, parentheses too.
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'T' || line[end + 2] == 't';
}

namespace {

// The pointers that execve wants; they point into `texts`.
std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers =
      mapped(texts, [](const std::string& text) { return const_cast<char*>(text.c_str()); });
  pointers.push_back(nullptr);
  return pointers;
}

// SIGHUP stays ignored where it was (nohup). SIGINT and SIGQUIT are ignored: Ctrl-C and
// Ctrl-\ reach the terminal's whole foreground group, and the supervisor decides how a run ends.
// (In a process group of its own a child would be safe, too, but Ctrl-Z would stop the supervisor
// only.)
void reset_signals() {
  struct sigaction action {};
  for (int number = 1; number < SIGRTMIN; ++number) {
    struct sigaction before {};
    ::sigaction(number, nullptr, &before);
    const bool hangup_ignored = number == SIGHUP && before.sa_handler == SIG_IGN;
    const bool from_terminal = number == SIGINT || number == SIGQUIT;
    action.sa_handler = from_terminal || hangup_ignored ? SIG_IGN : SIG_DFL;
    ::sigaction(number, &action, nullptr);  // fails for SIGKILL and SIGSTOP, which is fine
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool redirect_standard_fds(const ChildSpec& spec) {
  const int input = spec.input_fd >= 0 ? spec.input_fd : ::open("/dev/null", O_RDONLY);
  const int errors = spec.error_fd >= 0 ? spec.error_fd : spec.output_fd;
  return input >= 0 && ::dup2(input, STDIN_FILENO) >= 0 &&
         ::dup2(spec.output_fd, STDOUT_FILENO) >= 0 &&
         (errors == STDERR_FILENO || ::dup2(errors, STDERR_FILENO) >= 0);
}

// Also closes, at exec, what the supervisor itself inherited without wanting it. Our own
// descriptors are close-on-exec anyway, so kernels before 5.11 lose only that.
bool keep_only(const std::vector<int>& fds) {
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : fds) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags < 0 || ::fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) != 0) return false;
  }
  return true;
}

// Where memory is short, the kernel is to end a rank and not the supervisor, which writes the
// report. Its scores go from -1000 to 1000; 500 more count as half of the machine's memory.
std::string oom_score_of_ranks() {
  int own = 0;
  std::ifstream("/proc/self/oom_score_adj") >> own;
  return std::to_string(std::min(own + 500, 1000));
}

void set_oom_score(const std::string& score) {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(file, score.data(), score.size());
  ::close(file);
}

[[noreturn]] void execute(const ChildSpec& spec, char* const* arguments, char* const* environment,
                          pid_t supervisor, int report_fd, const std::string& oom_score) {
  constexpr int kCannotExecute = 127;  // as shells do
  ::prctl(PR_SET_PDEATHSIG, spec.death_signal);
  // The supervisor may have died before that call. No signal will come then.
  if (::getppid() != supervisor) ::_exit(kCannotExecute);
  reset_signals();
  set_oom_score(oom_score);
  if (redirect_standard_fds(spec) && keep_only(spec.inherited_fds)) {
    ::execve(spec.executable.c_str(), arguments, environment);
  }
  const int reason = errno;
  [[maybe_unused]] const ssize_t written = ::write(report_fd, &reason, sizeof reason);
  ::_exit(kCannotExecute);
}

}  // namespace

ChildProcess::ChildProcess(const ChildSpec& spec) : executable_(spec.executable) {
  const std::vector<char*> arguments = pointers_to(spec.arguments);
  const std::vector<char*> environment = pointers_to(spec.environment);
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    throw_system_error<InternalError>("cannot make a pipe to a rank", errno);
  }
  confirm_ = FileDescriptor(report[0]);
  FileDescriptor told(report[1]);
  const std::string oom_score = oom_score_of_ranks();
  const pid_t own = ::getpid();
  // No handler of the supervisor may run in the child.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) execute(spec, arguments.data(), environment.data(), own, report[1], oom_score);
  const int reason = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  told.reset();
  if (pid_ < 0) {
    throw_system_error<InternalError>(fmt::format("cannot fork to start {}", executable_), reason);
  }
  watch_ = open_process(pid_);
}

ChildProcess::~ChildProcess() {
  if (alive()) {
    signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void ChildProcess::confirm(int milliseconds) {
  pollfd told{confirm_.get(), POLLIN, 0};
  if (::poll(&told, 1, milliseconds) <= 0) return;
  int reason = 0;
  if (TEMP_FAILURE_RETRY(::read(confirm_.get(), &reason, sizeof reason)) <= 0) return;
  reap(true);
  throw UnavailableError(fmt::format("cannot execute {}: {}", executable_, std::strerror(reason)));
}

const std::optional<ChildExit>& ChildProcess::reap(bool block) {
  if (!alive()) return exit_;
  int status = 0;
  const auto reaped = TEMP_FAILURE_RETRY(::waitpid(pid_, &status, block ? 0 : WNOHANG));
  ensure(reaped >= 0, "process {} cannot be waited for: {}", pid_, std::strerror(errno));
  if (reaped != pid_) return exit_;
  exit_.emplace();
  if (WIFSIGNALED(status)) exit_->signal = WTERMSIG(status);
  if (WIFEXITED(status)) exit_->code = WEXITSTATUS(status);
  return exit_;
}

void ChildProcess::signal(int number) const noexcept {
  // Until the child is reaped, its number belongs to no other process.
  if (alive()) ::kill(pid_, number);
}

}  // namespace ddpbench::launch
