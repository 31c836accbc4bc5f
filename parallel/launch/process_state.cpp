// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/process_state.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace ddpbench::launch {

std::string ProcessState::words() const {
  if (!processor_s) return "";
  const char* const doing = is_stopped()                     ? "stopped"
                            : letter == 'R'                  ? "running, or waiting for a core,"
                            : letter == 'S' || letter == 'D' ? "asleep"
                                                             : "ending";
  return fmt::format("{} after {:.2f} s of processor time", doing, *processor_s);
}

std::optional<ProcessState> read_process_state(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  // "pid (name) state ...", where the name may hold anything, parentheses too.
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(end + 1));
  ProcessState state;
  std::string skipped;
  double user = 0, system = 0;
  // The state is field 3. Fields 14 and 15 are the clock ticks spent in the program and for it in
  // the kernel, field 22 is the time of its start, field 52 its wait status.
  fields >> state.letter;
  for (int field = 4; field <= 13; ++field) fields >> skipped;
  fields >> user >> system;
  for (int field = 16; field <= 21; ++field) fields >> skipped;
  if (!(fields >> state.start)) return std::nullopt;
  for (int field = 23; field <= 51; ++field) fields >> skipped;
  int status = 0;
  if (state.letter == 'Z' && fields >> status) state.wait_status = status;
  state.processor_s = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return state;
}

namespace {

ProcessName name_process(pid_t pid) {
  const auto state = read_process_state(pid);
  return {pid, state ? state->start : 0};
}

}  // namespace

ProcessName own_process() { return name_process(::getpid()); }

ProcessName parent_process() { return name_process(::getppid()); }

}  // namespace ddpbench::launch
