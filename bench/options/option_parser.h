// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// From argv, environment and configuration file to Options. The only place that knows option names.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "bench/options/options.h"

namespace ddpbench::bench {

using GetVariable = std::function<const char*(const char*)>;
// All names of environment variables; of those that begin with DDPBENCH_, unknown ones are errors.
// Empty variables count as not set.
using VariableNames = std::vector<std::string>;

enum class Command : std::uint8_t { run, tune, info, data_list, data_fetch, help, version };

struct ParsedCommand {
  Command command = Command::run;
  Options options = {};                 // of run and tune; data_dir also of data_*
  std::vector<std::string> names = {};  // data fetch NAME...
  std::string text = {};                // help, version
};

struct ParseContext {
  GetVariable get_variable;
  VariableNames variable_names;
  std::vector<std::string> config_directories;  // searched for --config=NAME, in order
};

// Throws ConfigError: unknown option, key or variable (naming the nearest known one and where it
// stood: flag, variable, or file and JSON pointer), wrong type or value, both batch sizes in one
// layer, global batch that a device count does not divide, negative numbers and the like.
ParsedCommand parse_command(const std::vector<std::string>& arguments, const ParseContext& context);

// " Did you mean 'x'?" with the nearest name, else nothing.
std::string suggestion(const std::string& name, const std::vector<std::string>& known);

}  // namespace ddpbench::bench
