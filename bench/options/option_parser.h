// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes Options from argv, environment and configuration file. The table of options has the names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/options/option_help.h"
#include "bench/options/option_table.h"

namespace ddpbench::bench {

struct ParsedCommand {
  Command command = Command::run;
  Options options = {};
  std::vector<std::string> names = {};  // for data fetch NAME...
  std::string text = {};                // for help and version
  std::vector<std::string> notes = {};  // on options, for people; for run and tune
};

struct ParseContext {
  // The environment. An empty variable counts as not set; an unknown DDPBENCH_ one is an error.
  std::map<std::string, std::string> variables = {};
  std::vector<std::string> config_directories = {};  // searched for --config=NAME, in order
  // The commands with options of their own, which --help lists and messages name.
  std::vector<CommandSummary> commands = {};
  // Names the configuration of a run that says nothing of what is compared, for --model's network
  // ("": the default); a note says it. Its runs on more GPUs than there are are then left out.
  // Null: such a run has the defaults of the options.
  std::string (*first_answer)(const std::string& model) = nullptr;
};

// Throws ConfigError for an unknown option, key or variable (naming the nearest known one and where
// it stood: flag, variable, or file and JSON pointer), a wrong type or value, both batch sizes in
// one layer, a global batch that a device count does not divide, and the like.
ParsedCommand parse_command(const std::vector<std::string>& arguments, const ParseContext& context);

}  // namespace ddpbench::bench
