// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/commands/command_line.h"
#include "bench/rank/rank_main.h"

int main(int argc, char** argv) {
  using namespace ddpbench::bench;
  const auto get_variable = [](const char* name) -> const char* { return std::getenv(name); };
  if (get_variable(kRunFdVariable) != nullptr) return rank_main(get_variable);
  return command_line_main(std::vector<std::string>(argv, argv + argc));
}
