// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/host/interrupt.h"

#include <signal.h>

namespace ddpbench::bench {
namespace {

// A signal handler can reach nothing but a global; this is the program's only one.
volatile sig_atomic_t requested = 0;

void on_signal(int) { requested = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  // Without SA_RESTART, a wait of the supervisor ends at once.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupt_requested() { return requested != 0; }

}  // namespace ddpbench::bench
