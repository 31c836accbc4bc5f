// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The state of a process at one moment, and its identity, both from proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddpbench::launch {

struct ProcessState {
  char letter = '?';                  // R: runs or waits for a core, S and D: sleeps, T and t: held
  std::optional<double> processor_s;  // used since it was started
  std::uint64_t start = 0;            // clock ticks from boot to its start
  std::optional<int> wait_status;     // as of waitpid(2); set while its parent has not reaped it

  bool is_stopped() const { return letter == 'T' || letter == 't'; }  // by SIGSTOP or a debugger
  // "asleep after 0.12 s of processor time"; empty when nothing is known.
  std::string words() const;
};

// nullopt when there is no such process.
std::optional<ProcessState> read_process_state(pid_t pid);

// Tells a process from a later one with the same number.
struct ProcessName {
  pid_t pid = 0;
  std::uint64_t start = 0;  // as in ProcessState
};

ProcessName own_process();
// The process that started this one, or that has it since that ended. {0, 0} where it is in another
// PID namespace.
ProcessName parent_process();

}  // namespace ddpbench::launch
