// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts made from the option table, above all --help.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/options/option_table.h"

namespace ddpbench::bench {

// A command that shares the option table.
struct TableCommand {
  Command command;
  std::string words;  // that name it, "data list"; empty for a run
  std::string usage;  // "ddpbench data list"
  std::string help;

  std::string spoken() const;  // as a sentence names it
};
const std::vector<TableCommand>& table_commands();
const TableCommand& table_command(Command command);

// A command with options of its own (show, ...), as --help and docs/cli.md show it.
struct CommandSummary {
  std::string name;                   // "show"
  std::string usage;                  // "ddpbench show REPORT..."
  std::string summary;                // a line for the list of commands
  std::function<std::string()> help;  // what `ddpbench NAME --help` prints
};

// The longest line of what --help prints, which is the same in documents as on any terminal.
inline constexpr std::size_t kHelpColumns = 80;

// What `ddpbench --help` prints.
std::string_view short_help();

// What `ddpbench help TOPIC` prints: options, hosts, config, exit-codes, or a command. Throws
// ConfigError for others.
std::string topic_help(const std::string& topic, const std::vector<CommandSummary>& commands);

// Returns what `ddpbench COMMAND --help` prints for commands that share the option table: their
// usage and the options that any of them takes.
std::string command_help_text(std::span<const Command> commands);

// A line of help: `name` at the left and its explanation, wrapped, at the right. The explanation
// begins on the next line when `name` is long.
std::string two_columns(std::string_view name, std::string_view help);

// A line of help for an option, with its default.
std::string option_lines(const OptionDefinition& definition);

// "--lr=NUMBER", "-o, --output=FILE"; "dataset.name: TEXT" for an option that only configuration
// files give.
std::string name_with_hint(const OptionDefinition& definition);

struct ExitCode {
  int code;
  const char* meaning;
};
std::span<const ExitCode> exit_codes();

// Which of defaults, files, variables and flags wins, as sentences.
std::string_view option_precedence();

// The groups of options, in the order of the table.
std::vector<std::string> option_group_names();

}  // namespace ddpbench::bench
