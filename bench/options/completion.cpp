// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/options/option_parser.h"
#include "bench/options/option_table.h"

namespace ddpbench::bench {
namespace {

struct TableCommand {
  Command command;
  const char* summary;
};
constexpr TableCommand kTableCommands[] = {
    {Command::run, "compare strategies"},
    {Command::tune, "find ddp's best bucket sizes"},
    {Command::fit, "find the largest batches that fit in memory"},
    {Command::info, "version, devices, libraries, limits"},
    {Command::data_list, "which data sets are there"},
    {Command::data_fetch, "download data sets"},
};

CompletionOption completion_of(const OptionDefinition& definition) {
  CompletionOption option;
  option.syntax = syntax_of(definition);
  option.help = first_sentence(definition.help);
  option.values =
      definition.rule.choices.empty() ? words_of_hint(definition.hint) : definition.rule.choices;
  option.is_list = definition.is_list();
  option.takes_file = is_file_hint(definition.hint) || definition.name == "config";
  return option;
}

// The first words of all commands: "tune", "info", "data", ...
std::vector<std::string> first_words(const std::vector<CompletionCommand>& commands) {
  std::vector<std::string> words;
  for (const CompletionCommand& command : commands) {
    const std::string word = command.words.substr(0, command.words.find(' '));
    if (!word.empty() && std::ranges::count(words, word) == 0) words.push_back(word);
  }
  return words;
}

// The second words of the commands that begin with `first`: "list", "fetch" for "data".
std::vector<std::string> second_words(const std::vector<CompletionCommand>& commands,
                                      const std::string& first) {
  std::vector<std::string> words;
  for (const CompletionCommand& command : commands)
    if (command.words.starts_with(first + " "))
      words.push_back(command.words.substr(first.size() + 1));
  return words;
}

// The words that have a second one: "data".
std::vector<std::string> leading_words(const std::vector<CompletionCommand>& commands) {
  std::vector<std::string> words;
  for (const std::string& word : first_words(commands))
    if (!second_words(commands, word).empty()) words.push_back(word);
  return words;
}

std::string in_words(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// ---- bash ----

// "--kind=" for an option with a value, "--force" for a switch.
std::string bash_options(const CompletionCommand& command) {
  std::vector<std::string> words;
  for (const CompletionOption& option : command.options)
    for (const std::string& name : option.syntax.names)
      words.push_back(option.takes_value() && name.starts_with("--") ? name + "=" : name);
  return in_words(words);
}

// The lines of a `case` over "COMMAND:OPTION" that say what values the option takes.
std::string bash_values(const CompletionCommand& command) {
  std::string text;
  for (const CompletionOption& option : command.options) {
    if (!option.takes_value()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.syntax.names)
      patterns.push_back(shell_quoted(command.words + ":" + name));
    text += fmt::format("    {}) kind={} values={} ;;\n", fmt::join(patterns, " | "),
                        option.takes_file ? "file"
                        : option.is_list  ? "list"
                                          : "word",
                        shell_quoted(in_words(option.values)));
  }
  return text;
}

constexpr std::string_view kBashHead =
    R"(# Completion of ddpbench's command line in bash, made from the program's tables of options.
_ddpbench() {
  local current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' option='' options='' words='' kind='' values='' head=''
  COMPREPLY=()
  # Where '=' parts words, "--kind=sc" is three of them.
  if [[ $current == = ]]; then
    option=$last current=''
  elif [[ $last == = ]] && ((COMP_CWORD >= 2)); then
    option=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $current == --*=* ]]; then
    option=${current%%=*} head=$option= current=${current#*=}
  elif [[ $last == -* ]]; then
    option=$last
  fi
)";

constexpr std::string_view kBashTail =
    R"(  if [[ -z $kind && $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$current"))
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2>/dev/null; fi
  elif [[ $kind == file || ( -z $kind && $words == @files ) ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$head" -f -- "$current")
  elif [[ $kind == list && $current == *,* ]]; then
    COMPREPLY=($(compgen -P "$head${current%,*}," -W "$values" -- "${current##*,}"))
  elif [[ -n $kind ]]; then
    COMPREPLY=($(compgen -P "$head" -W "$values" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}
complete -F _ddpbench ddpbench
)";

// ---- zsh ----

// The text of a specification of _arguments; ':' and brackets have a meaning there.
std::string zsh_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

// What _arguments does for the option's value: ":hint:action".
std::string zsh_value(const CompletionOption& option) {
  if (!option.takes_value()) return "";
  std::string action;
  if (option.takes_file) action = "_files";
  if (!option.takes_file && !option.values.empty()) {
    const std::string words = in_words(option.values);
    action = option.is_list ? "_sequence compadd - " + words : "(" + words + ")";
  }
  return fmt::format(":{}:{}", zsh_text(option.syntax.hint), action);
}

std::string zsh_function(const CompletionCommand& command) {
  std::string name = "_ddpbench_" + (command.words.empty() ? "run" : command.words);
  std::ranges::replace(name, ' ', '_');
  std::string text = name + "() {\n  _arguments";
  for (const CompletionOption& option : command.options) {
    for (const std::string& flag : option.syntax.names) {
      const bool is_long = flag.starts_with("--");
      text += " \\\n    " + shell_quoted(fmt::format("{}{}[{}]{}", flag,
                                                     !option.takes_value() ? ""
                                                     : is_long             ? "="
                                                                           : "+",
                                                     zsh_text(option.help), zsh_value(option)));
    }
  }
  if (command.takes_files) text += " \\\n    '*:file:_files'";
  if (!command.names.empty())
    text += " \\\n    " + shell_quoted(fmt::format("*:name:({})", fmt::join(command.names, " ")));
  return text + "\n}\n";
}

// ---- fish ----

std::string fish_text(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string fish_lines(const CompletionCommand& command) {
  const std::string where =
      fmt::format("complete -c ddpbench -n \"__ddpbench_is '{}'\"", command.words);
  std::string text;
  for (const CompletionOption& option : command.options) {
    text += where;
    for (const std::string& name : option.syntax.names)
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    if (option.takes_file) text += " -r -F";
    if (option.takes_value() && !option.takes_file) text += " -x";
    if (!option.takes_file && !option.values.empty())
      text += option.is_list
                  ? fmt::format(" -a '(__fish_append , {})'", fmt::join(option.values, " "))
                  : fmt::format(" -a '{}'", fmt::join(option.values, " "));
    text += fmt::format(" -d {}\n", fish_text(option.help));
  }
  if (command.takes_files) text += where + " -F\n";
  if (!command.names.empty()) text += fmt::format("{} -a '{}'\n", where, in_words(command.names));
  return text;
}

}  // namespace

std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::vector<std::string> words_of_hint(const std::string& hint) {
  std::vector<std::string> words;
  std::string text = hint.substr(0, hint.find(','));
  std::size_t begin = 0;
  while (text.find('|') != std::string::npos && begin <= text.size()) {
    const std::size_t end = std::min(text.find('|', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!word.empty() && word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos)
      words.push_back(word);
    begin = end + 1;
  }
  return words;
}

bool is_file_hint(const std::string& hint) {
  return std::ranges::any_of(std::vector<std::string>{"FILE", "PATH", "DIR", "REPORT", "BASE"},
                             [&](const std::string& word) { return hint.starts_with(word); });
}

std::string first_sentence(const std::string& help) {
  std::string sentence = help.substr(0, help.find(". "));
  if (sentence.ends_with('.')) sentence.pop_back();
  return sentence;
}

std::vector<CompletionCommand> table_commands() {
  std::vector<CompletionCommand> commands;
  for (const TableCommand& row : kTableCommands) {
    CompletionCommand command{words_of(row.command), row.summary, {}, {}, false};
    for (const OptionDefinition& definition : option_table())
      if ((definition.sources & kFlag) != 0 && definition.applies_to(row.command))
        command.options.push_back(completion_of(definition));
    commands.push_back(std::move(command));
  }
  return commands;
}

std::string bash_completion(const std::vector<CompletionCommand>& commands) {
  std::string text(kBashHead);
  text += fmt::format("  case ${{COMP_WORDS[1]-}} in {}) command=${{COMP_WORDS[1]}} ;; esac\n",
                      fmt::join(first_words(commands), " | "));
  for (const std::string& first : leading_words(commands)) {
    text += fmt::format(
        "  if [[ $command == {} ]] && ((COMP_CWORD >= 3)); then command+=\" ${{COMP_WORDS[2]}}\"; "
        "fi\n",
        first);
  }
  text += "  if ((COMP_CWORD == 1)); then command=''; fi\n  case $command in\n";
  for (const CompletionCommand& command : commands) {
    const std::string words = command.takes_files     ? "@files"
                              : command.words.empty() ? ""
                                                      : in_words(command.names);
    text += fmt::format("    {}) options={} words={} ;;\n", shell_quoted(command.words),
                        shell_quoted(bash_options(command)), shell_quoted(words));
  }
  for (const std::string& first : leading_words(commands))
    text += fmt::format("    {}) words={} ;;\n", first,
                        shell_quoted(in_words(second_words(commands, first))));
  text += fmt::format("  esac\n  if ((COMP_CWORD == 1)); then words={}; fi\n",
                      shell_quoted(in_words(first_words(commands))));
  text += "  case $command:$option in\n";
  for (const CompletionCommand& command : commands) text += bash_values(command);
  return text + "  esac\n" + std::string(kBashTail);
}

std::string zsh_completion(const std::vector<CompletionCommand>& commands) {
  std::string text =
      "#compdef ddpbench\n"
      "# Completion of ddpbench's command line in zsh, made from the program's tables of "
      "options.\n";
  for (const CompletionCommand& command : commands) text += zsh_function(command);
  text += "_ddpbench() {\n  local -a commands\n  commands=(\n";
  for (const std::string& first : first_words(commands)) {
    const auto at = std::ranges::find_if(commands, [&](const CompletionCommand& command) {
      return command.words == first || command.words.starts_with(first + " ");
    });
    const std::string summary =
        at->words == first ? at->summary
                           : fmt::format("{}", fmt::join(second_words(commands, first), ", "));
    text += fmt::format("    {}\n", shell_quoted(first + ":" + zsh_text(summary)));
  }
  text +=
      "  )\n  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n"
      "    _describe command commands\n    return\n  fi\n";
  for (const std::string& first : leading_words(commands)) {
    text += fmt::format(
        "  if [[ $words[2] == {} ]]; then\n"
        "    if (( CURRENT == 3 )); then compadd {}; return; fi\n"
        "    words[2,3]=(\"$words[2] $words[3]\")\n    (( CURRENT-- ))\n  fi\n",
        first, in_words(second_words(commands, first)));
  }
  text += "  case $words[2] in\n";
  for (const CompletionCommand& command : commands) {
    if (command.words.empty()) continue;
    std::string function = "_ddpbench_" + command.words;
    std::ranges::replace(function, ' ', '_');
    text += fmt::format("    {}) shift words; (( CURRENT-- )); {} ;;\n",
                        shell_quoted(command.words), function);
  }
  return text + "    *) _ddpbench_run ;;\n  esac\n}\n_ddpbench \"$@\"\n";
}

std::string fish_completion(const std::vector<CompletionCommand>& commands) {
  std::string text =
      "# Completion of ddpbench's command line in fish, made from the program's tables of "
      "options.\n"
      "# Prints the command of the line so far, \"\" for a run.\n"
      "function __ddpbench_command\n"
      "  set -l words (commandline -opc)\n"
      "  switch \"$words[2]\"\n";
  for (const std::string& first : first_words(commands)) {
    text += fmt::format("    case {}\n      echo {}\n", first,
                        second_words(commands, first).empty()
                            ? first
                            : "(string trim \"" + first + " $words[3]\")");
  }
  text +=
      "    case '*'\n      echo ''\n  end\nend\n"
      "function __ddpbench_is\n  test \"$(__ddpbench_command)\" = \"$argv[1]\"\nend\n"
      "function __ddpbench_begins\n  test (count (commandline -opc)) -eq 1\nend\n"
      "complete -c ddpbench -f\n";
  for (const std::string& first : first_words(commands)) {
    const auto at = std::ranges::find(commands, first, &CompletionCommand::words);
    text += fmt::format("complete -c ddpbench -n __ddpbench_begins -a {}{}\n", first,
                        at == commands.end() ? "" : " -d " + fish_text(at->summary));
  }
  for (const std::string& first : leading_words(commands))
    text += fmt::format("complete -c ddpbench -n \"__ddpbench_is '{}'\" -a '{}'\n", first,
                        in_words(second_words(commands, first)));
  for (const CompletionCommand& command : commands) text += fish_lines(command);
  return text;
}

}  // namespace ddpbench::bench
