// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// LaunchSpec: the processes that a supervisor starts for one run.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddpbench::launch {

// They write to the supervisor's stderr.
struct LaunchSpec {
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments;  // argv[1...]
  int ranks = 1;
  int threads_per_device = 1;                      // OMP_NUM_THREADS; OMP_WAIT_POLICY=PASSIVE, and
                                                   // OMP_PROC_BIND=false: devices pin themselves
  std::map<std::string, std::string> environment;  // added to the inherited one
  std::vector<int> inherited_fds;                  // stay open in the children, same numbers
};

}  // namespace ddpbench::launch
