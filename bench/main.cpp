// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/comm/comm_rank.h"
#include "bench/commands/command_line.h"
#include "bench/rank/rank_main.h"

int main(int argc, char** argv) {
  using namespace ddpbench::bench;
  const auto get_variable = [](const char* name) -> const char* { return std::getenv(name); };
  if (get_variable(kJobFdVariable) != nullptr) {
    return rank_main(get_variable,
                     {{kTrainingKind, run_training_rank}, {kCommKind, run_comm_ranks}});
  }
  return command_line_main(std::vector<std::string>(argv, argv + argc));
}
