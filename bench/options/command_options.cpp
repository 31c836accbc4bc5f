// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/command_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "bench/options/option_help.h"
#include "bench/options/option_table.h"

namespace ddpbench::bench {
namespace {

// Reads the texts given for one option into its target.
struct Assignment {
  std::vector<std::string> texts;
  bool has_commas;    // whether a list's words are separated by commas
  std::string where;  // "show: --format"

  const std::string& only_text() const {
    if (texts.size() == 1) return texts.front();
    throw ConfigError(fmt::format("{} is given {} times; give it once.", where, texts.size()));
  }

  template <typename T>
  T number(const char* expected) const {
    const std::string& text = only_text();
    const auto value = number_in<T>(text);
    if (!value) throw ConfigError(fmt::format("{}={}: expected {}.", where, text, expected));
    return *value;
  }

  void operator()(bool* target) const {
    const std::string& text = texts.back();
    if (text != "on" && text != "off" && text != "true" && text != "false")
      throw ConfigError(fmt::format("{}={}: expected on or off.", where, text));
    *target = text == "on" || text == "true";
  }
  void operator()(int* target) const { *target = number<int>("a whole number"); }
  void operator()(double* target) const { *target = number<double>("a number"); }
  void operator()(std::string* target) const { *target = only_text(); }
  void operator()(std::optional<std::string>* target) const { *target = only_text(); }
  void operator()(std::vector<std::string>* target) const {
    target->clear();
    for (const std::string& text : texts) {
      if (!has_commas) target->push_back(text);
      if (!has_commas) continue;
      for (std::string& part : split(text, ',')) target->push_back(std::move(part));
    }
  }
};

// " [table]"; empty where there is no default to show.
std::string default_of(const OptionTarget& target) {
  std::string text;
  if (const auto* const whole = std::get_if<int*>(&target)) text = fmt::format("{}", **whole);
  if (const auto* const real = std::get_if<double*>(&target)) text = fmt::format("{}", **real);
  if (const auto* const word = std::get_if<std::string*>(&target)) text = **word;
  if (const auto* const list = std::get_if<std::vector<std::string>*>(&target))
    text = fmt::format("{}", fmt::join(**list, ","));
  return text.empty() ? text : fmt::format(" [{}]", text);
}

OptionSyntax help_syntax() { return {.names = {"-h", "--help"}, .takes = Takes::nothing}; }

}  // namespace

void CommandOptions::add(const std::string& names, const std::string& hint, OptionTarget target,
                         const std::string& help, const std::vector<std::string>& choices) {
  const std::string shown = choices.empty() ? hint : fmt::format("{}", fmt::join(choices, "|"));
  const Takes takes = shown.empty() ? Takes::nothing : Takes::one;
  rows_.push_back({{split(names, ','), takes, shown}, target, names, help + default_of(target)});
}

void CommandOptions::add_words(const std::string& names, const std::string& hint,
                               std::vector<std::string>& target, const std::string& help,
                               bool is_required) {
  rows_.push_back({{split(names, ','), Takes::several, hint}, &target, names, help, is_required});
}

std::vector<std::string> CommandOptions::Row::variables() const {
  std::vector<std::string> variables;
  for (const std::string& name : syntax.names) {
    if (name.starts_with("--")) variables.push_back(variable_of(name.substr(2)));
  }
  return variables;
}

CommandSyntax CommandOptions::syntax_of(const std::string& command) const {
  CommandSyntax syntax{.command = command, .options = {}};
  syntax.options.push_back(help_syntax());
  for (const Row& row : rows_) {
    if (row.is_name()) syntax.needs_name = row.is_required;
    if (!row.is_name()) syntax.options.push_back(row.syntax);
  }
  return syntax;
}

std::vector<std::string> CommandOptions::variables() const {
  std::vector<std::string> all;
  for (const Row& row : rows_) {
    for (std::string& name : row.variables()) all.push_back(std::move(name));
  }
  return all;
}

std::map<std::string, std::string> CommandOptions::read_variables(
    const std::string& command, const std::map<std::string, std::string>& variables,
    const std::vector<std::string>& arguments) const {
  const CommandWords words = read_words(syntax_of(command), arguments);
  std::map<std::string, std::string> used;
  if (words.has("help")) return used;
  for (const Row& row : rows_) {
    if (words.has(row.syntax.key())) continue;
    std::string first;
    for (const std::string& name : row.variables()) {
      const auto given = variables.find(name);
      if (given == variables.end() || given->second.empty()) continue;
      if (!first.empty()) {
        throw ConfigError(
            fmt::format("{} and {} set the same option; give only one.", first, name));
      }
      first = name;
      used.insert(*given);
      std::visit(Assignment{{given->second}, row.syntax.takes == Takes::one, name}, row.target);
    }
  }
  return used;
}

bool CommandOptions::read(const std::string& command,
                          const std::vector<std::string>& arguments) const {
  const Row* names = nullptr;
  for (const Row& row : rows_) {
    if (row.is_name()) names = &row;
  }
  const CommandWords words = read_words(syntax_of(command), arguments);
  if (words.has("help")) return false;
  const auto refuse = [&command](const std::string& why) {
    throw ConfigError(
        fmt::format("{0}: {1}. `ddpbench {0} --help` shows the usage.", command, why));
  };
  if (names == nullptr && !words.names.empty())
    refuse(fmt::format("unexpected argument '{}'", words.names.front()));
  for (const Row& row : rows_) {
    const auto given = words.options.find(row.syntax.key());
    const bool is_given = row.is_name() ? !words.names.empty() : given != words.options.end();
    if (row.is_required && !is_given) refuse(fmt::format("{} is required", row.names));
    if (!is_given) continue;
    std::visit(
        Assignment{row.is_name() ? words.names : given->second, row.syntax.takes == Takes::one,
                   fmt::format("{}: --{}", command, row.syntax.key())},
        row.target);
  }
  return true;
}

std::vector<CommandOption> CommandOptions::list() const {
  std::vector<CommandOption> options = {{help_syntax(), "Print this text and stop", false}};
  for (const Row& row : rows_) options.push_back({row.syntax, row.help, row.is_name()});
  return options;
}

std::string CommandOptions::help(const std::string& summary, const std::string& usage) const {
  std::string names, options = two_columns("-h, --help", "Print this text and stop");
  for (const Row& row : rows_) {
    const std::string& hint = row.syntax.hint;
    const std::string between = hint.empty() || hint == "..." ? "" : row.is_name() ? " " : "=";
    const std::string left =
        fmt::format("{}{}{}", fmt::join(row.syntax.names, ", "), between, hint);
    (row.is_name() ? names : options) +=
        two_columns(left, row.help + (row.is_required ? " (required)" : ""));
  }
  std::string text = fmt::format("{}.\nUsage: {}\n", summary, usage);
  if (!names.empty()) text += "\nFiles:\n" + names;
  text += "\nOptions:\n" + options + "\n";
  return footer_.empty() ? text : text + wrap(footer_, kHelpColumns, 0);
}

}  // namespace ddpbench::bench
