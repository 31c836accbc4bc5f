// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Splits the words of a command line into options with their texts, and names. Every command's
// words are read here, so all commands take '-' and '_', "--option=value" and "--option value", and
// refuse unknown options in the same way. CommandOptions: the rows of a command that reads reports.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

struct CommandWords {
  // The texts of each option given, by its name and in their order; "on" for a switch alone.
  std::map<std::string, std::vector<std::string>> options = {};
  std::vector<std::string> names = {};  // the words that belong to no option

  bool has(const std::string& option) const { return options.contains(option); }
};

// Reads the words of a command by its rows; those that are no flags are for names. `command`:
// "show"; empty for `ddpbench --strategy=ddp`. An option that takes several words leaves one for a
// name that is required. Throws ConfigError for an unknown option, naming the nearest one, and for
// a missing or empty value. Words after "--" are names.
CommandWords read_words(const std::string& command, std::span<const OptionDefinition> rows,
                        const std::vector<std::string>& arguments);

// The options of a command that are bound to its own members (show, ...).
class CommandOptions {
 public:
  CommandOptions();

  // `names`: "--format" or "-o,--output". `hint` is what --help shows after the names; without one
  // the option takes the rule's choices, or is a switch. The target keeps its value as the default
  // unless the option is given.
  void add(const std::string& names, const std::string& hint, const Member& target,
           const std::string& help, const ValueRule& rule = {});
  // Adds an option that takes all words up to the next option. `names` without dashes stands for
  // the names that the command takes.
  void add_words(const std::string& names, const std::string& hint,
                 std::vector<std::string>& target, const std::string& help,
                 bool is_required = false);
  void set_footer(const std::string& text) { footer_ = text; }

  // Assigns what `arguments` give. Returns false and assigns nothing when they ask for help. Throws
  // ConfigError whose message begins with `command`.
  bool read(const std::string& command, const std::vector<std::string>& arguments) const;

  // Returns what --help prints. `summary` is a line without a full stop.
  std::string help(const std::string& summary, const std::string& usage) const;

  // All of them, --help included, in the order of the help.
  const std::vector<OptionDefinition>& rows() const { return rows_; }

 private:
  std::vector<OptionDefinition> rows_;
  std::string footer_;
};

}  // namespace ddpbench::bench
