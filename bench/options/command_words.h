// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Splits the words of a command line into options with their texts, and names. Every command's
// words are read here, so all commands take '-' and '_', "--option=value" and "--option value", and
// refuse unknown options in the same way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddpbench::bench {

enum class Takes : std::uint8_t {
  nothing,  // a switch: on when named, or --name=off
  one,      // the text after '=', or the next word
  several,  // the same, and all words up to the next option
};

struct OptionSyntax {
  std::vector<std::string> names;  // {"-o", "--output"}
  Takes takes = Takes::one;
  std::string hint = {};  // what a value looks like

  // The first long name without its dashes: "output".
  std::string key() const;
};

struct CommandSyntax {
  std::string command;  // "show"; empty for `ddpbench --strategy=ddp`
  std::vector<OptionSyntax> options;
  // Whether the command needs a name. An option that takes several words then leaves it one.
  bool needs_name = false;
};

struct CommandWords {
  // The texts of each option given, by its key and in their order; "on" for a switch alone.
  std::map<std::string, std::vector<std::string>> options = {};
  std::vector<std::string> names = {};  // the words that belong to no option

  bool has(const std::string& option) const { return options.contains(option); }
};

// Throws ConfigError for an unknown option, naming the nearest one, and for a missing or empty
// value. Words after "--" are names.
CommandWords read_words(const CommandSyntax& syntax, const std::vector<std::string>& arguments);

}  // namespace ddpbench::bench
