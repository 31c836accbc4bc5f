// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// The options of a command that has its own (show, ...): one table, from which they are read and
// from which `ddpbench NAME --help` is made.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/options/command_words.h"

namespace ddpbench::bench {

// Where the value of an option goes. A list is written with commas.
using OptionTarget = std::variant<bool*, int*, double*, std::string*, std::optional<std::string>*,
                                  std::vector<std::string>*>;

class CommandOptions {
 public:
  // `names`: "--format" or "-o,--output". `hint` is what --help shows after them; a switch has
  // none. The target keeps its value, which is the default, unless the option is given.
  void add(const std::string& names, const std::string& hint, OptionTarget target,
           const std::string& help);
  // An option that takes words up to the next option; without dashes, the names that the command
  // takes.
  void add_words(const std::string& names, const std::string& hint,
                 std::vector<std::string>& target, const std::string& help,
                 bool is_required = false);
  void set_footer(const std::string& text) { footer_ = text; }

  // Assigns what `arguments` give. Returns false, and assigns nothing, when they ask for help.
  // Throws ConfigError that begins with `command`.
  bool read(const std::string& command, const std::vector<std::string>& arguments) const;

  // What --help prints. `summary` is a line without a full stop.
  std::string help(const std::string& summary, const std::string& usage) const;

 private:
  struct Row {
    OptionSyntax syntax;
    OptionTarget target;
    std::string names, help;
    bool is_required = false;

    bool is_name() const { return !names.starts_with('-'); }
  };
  std::vector<Row> rows_;
  std::string footer_;
};

}  // namespace ddpbench::bench
