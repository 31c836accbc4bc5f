// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The processes that a supervisor starts for one run, and the environment that it gives to each.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddpbench::launch {

// The ranks of one run. They write to the supervisor's stderr.
struct LaunchSpec {
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments;  // argv[1...]
  int ranks = 1;
  // How many ranks each process has, which share RANK: rank r is of process r / ranks_per_process.
  // Divides `ranks`.
  int ranks_per_process = 1;
  // OMP_NUM_THREADS. Ranks also get OMP_WAIT_POLICY=PASSIVE, and OMP_PROC_BIND=false because
  // devices pin themselves.
  int threads_per_device = 1;
  std::map<std::string, std::string> environment;  // added to the inherited one
  std::vector<int> inherited_fds;                  // stay open in the children, same numbers

  int processes() const { return ranks / ranks_per_process; }
};

// Where the ranks of a run meet.
struct Rendezvous {
  int port = 0;  // on the loopback interface; 0: there is only one process
  std::string secret;
};

// A secret that cannot be guessed: 256 random bits in hexadecimal.
std::string make_secret();

// "NAME=value" for all of our own environment except `without`, the OpenMP settings above, and
// `added`. Later ones replace earlier ones.
std::vector<std::string> child_variables(int threads_per_device,
                                         const std::map<std::string, std::string>& added,
                                         const std::vector<std::string>& without = {});

// "NAME=value" for all of our own environment, the OpenMP settings, spec.environment and the rank
// variables, which count processes. Later ones replace earlier ones.
std::vector<std::string> rank_variables(const LaunchSpec& spec, int process,
                                        const Rendezvous& rendezvous);

}  // namespace ddpbench::launch
