// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Completion of the command line in bash, zsh and fish, and the tables that it is made from: the
// same ones that the program parses with.
#pragma once

#include <string>
#include <vector>

#include "bench/options/command_words.h"

namespace ddpbench::bench {

// An option of a command as a shell offers it.
struct CompletionOption {
  OptionSyntax syntax;
  std::string help;                 // one sentence, without the full stop
  std::vector<std::string> values;  // the words it takes; empty: any
  bool is_list = false;             // several values, with commas
  bool takes_file = false;

  bool takes_value() const { return syntax.takes != Takes::nothing; }
};

struct CompletionCommand {
  std::string words;    // "show", "data fetch"; empty for a run
  std::string summary;  // what it does, without a full stop
  std::vector<CompletionOption> options;
  std::vector<std::string> names;  // the words it takes besides options
  bool takes_files = false;        // it takes files besides options
};

// The commands that share the table of options (option_table.h).
std::vector<CompletionCommand> table_commands();

// The words that a value may be, as the hint of an option tells them: "on|off,..." gives on and
// off. Words in capitals stand for something else.
std::vector<std::string> words_of_hint(const std::string& hint);
// Whether a value with this hint is a file or a folder: "FILE", "REPORT...".
bool is_file_hint(const std::string& hint);
// The first sentence of a help text, without its full stop.
std::string first_sentence(const std::string& help);

// The text in single quotes, as bash and zsh read them.
std::string shell_quoted(std::string_view text);

// The text of a completion file. The functions in it begin with _ddpbench.
std::string bash_completion(const std::vector<CompletionCommand>& commands);
std::string zsh_completion(const std::vector<CompletionCommand>& commands);
std::string fish_completion(const std::vector<CompletionCommand>& commands);

}  // namespace ddpbench::bench
