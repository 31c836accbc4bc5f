// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/remote_command.h"

#include <fmt/format.h>

#include "base/text.h"

namespace ddpbench::launch {

std::vector<std::string> shell_arguments(const std::string& command,
                                         const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"sh", "-c", fmt::format("exec {} \"$@\"", command), "ddpbench"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

std::string remote_command(const std::string& program, std::string_view word) {
  return fmt::format("exec {} {}", shell_quoted(program), word);
}

}  // namespace ddpbench::launch
