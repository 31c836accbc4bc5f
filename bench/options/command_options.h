// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of a command that has its own table of them (show, ...). The table is what the
// command line is read with and what `ddpbench NAME --help` is made from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/options/command_words.h"

namespace ddpbench::bench {

// Where the value of an option goes. A list is written with commas.
using OptionTarget = std::variant<bool*, int*, double*, std::string*, std::optional<std::string>*,
                                  std::vector<std::string>*>;

// An option of a command, or the names that it takes, as documents and shells show them.
struct CommandOption {
  OptionSyntax syntax;
  std::string help;
  bool is_name = false;  // the command's names, and no option
};

class CommandOptions {
 public:
  // `names`: "--format" or "-o,--output". `hint` is what --help shows after the names; a switch has
  // none. The target keeps its value as the default unless the option is given. `choices` are the
  // words that its value may be, shown in place of a hint; the command itself checks what is given.
  void add(const std::string& names, const std::string& hint, OptionTarget target,
           const std::string& help, const std::vector<std::string>& choices = {});
  // Adds an option that takes all words up to the next option. `names` without dashes stands for
  // the names that the command takes.
  void add_words(const std::string& names, const std::string& hint,
                 std::vector<std::string>& target, const std::string& help,
                 bool is_required = false);
  void set_footer(const std::string& text) { footer_ = text; }

  // Assigns what `arguments` give. Returns false and assigns nothing when they ask for help. Throws
  // ConfigError whose message begins with `command`.
  bool read(const std::string& command, const std::vector<std::string>& arguments) const;
  // Before read(): assigns what DDPBENCH_ variables give, each option by its long names
  // (--all-reduce: DDPBENCH_ALL_REDUCE). Empty ones count as not set. Those of options that
  // `arguments` give are left alone. Returns the variables that count, with their values. Throws
  // ConfigError that names the variable.
  std::map<std::string, std::string> read_variables(
      const std::string& command, const std::map<std::string, std::string>& variables,
      const std::vector<std::string>& arguments) const;
  // The variables of all options, by the same rule.
  std::vector<std::string> variables() const;

  // Returns what --help prints. `summary` is a line without a full stop.
  std::string help(const std::string& summary, const std::string& usage) const;

  // All of them, --help included, in the order of the help.
  std::vector<CommandOption> list() const;

 private:
  struct Row {
    OptionSyntax syntax;
    OptionTarget target;
    std::string names, help;
    bool is_required = false;

    bool is_name() const { return !names.starts_with('-'); }
    std::vector<std::string> variables() const;
  };
  CommandSyntax syntax_of(const std::string& command) const;

  std::vector<Row> rows_;
  std::string footer_;
};

}  // namespace ddpbench::bench
