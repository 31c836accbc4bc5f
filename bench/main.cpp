// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "bench/comm/collective_rank.h"
#include "bench/commands/subcommand.h"
#include "bench/host/host_limits.h"
#include "bench/rank/rank_main.h"

int main(int argc, char** argv) {
  using namespace ddpbench::bench;
  ddpbench::fill_standard_descriptors();
  spare_address_space();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write(), which has words
  const auto get_variable = [](const char* name) -> const char* { return std::getenv(name); };
  if (get_variable(kJobFdVariable) != nullptr) {
    return rank_main(get_variable,
                     {{kTrainingKind, run_training_process}, {kCommKind, run_comm_ranks}});
  }
  return command_line_main(std::vector<std::string>(argv, argv + argc));
}
