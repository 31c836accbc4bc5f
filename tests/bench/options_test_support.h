// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Parses options in a made-up environment, and returns the messages of refusals.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "bench/commands/subcommand.h"
#include "bench/host/environment_capture.h"
#include "bench/options/option_parser.h"
#include "bench/plan/sweep_plan.h"

namespace ddpbench::bench {

// What parse_command gets besides the arguments.
struct World {
  Variables variables = {};
  std::vector<std::string> config_directories = {};
};

inline ParsedCommand parse(const std::vector<std::string>& arguments, const World& world = {}) {
  const ParsedCommand command =
      parse_command(arguments, {world.variables, world.config_directories, command_summaries()});
  if (command.command != Command::run) return command;
  check_run_list(command.options);  // as command_line.cpp does
  check_saving(command.options);
  return command;
}

inline Options options_of(const std::vector<std::string>& arguments, const World& world = {}) {
  return parse(arguments, world).options;
}

// Returns the message of the ErrorType that `action` throws. Without an exception, returns a text
// that no test expects.
template <typename ErrorType = ConfigError, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  }
  return "<nothing was thrown>";
}

template <typename ErrorType = ConfigError>
std::string refusal(const std::vector<std::string>& arguments, const World& world = {}) {
  return message_of<ErrorType>([&] { parse(arguments, world); });
}

// A folder that is removed with this object.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ddpbench-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw InternalError("mkdtemp failed");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file, with the folders above it; returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
    return file.string();
  }

 private:
  std::string path_;
};

}  // namespace ddpbench::bench
