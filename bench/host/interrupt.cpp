// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace ddpbench::bench {
namespace {

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
