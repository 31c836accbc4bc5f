// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "parallel/launch/remote_command.h"

#include <fmt/format.h>

namespace ddpbench::launch {

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:=@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += R"('\'')";  // leaves the quotes for one quoted by a backslash
    } else {
      word += c;
    }
  }
  return word + "'";
}

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
