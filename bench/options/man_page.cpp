// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/man_page.h"

#include <fmt/format.h>

#include <sstream>

#include "bench/options/option_table.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

// A line of text as groff prints it: '-' would become a hyphen, a '.' or "'" in front a request.
std::string roff(std::string_view text) {
  std::string result;
  if (text.starts_with('.') || text.starts_with('\'')) result += "\\&";
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

// A paragraph with a term of its own.
std::string term(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(text));
}

// Lines as they are.
std::string verbatim(const std::string& text) {
  std::string result = ".nf\n";
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) result += roff(line) + "\n";
  return result + ".fi\n";
}

std::string option_term(const OptionDefinition& definition) {
  std::string help = definition.help;
  const std::string value = default_text(definition);
  if (!value.empty() && !definition.is_switch()) help += fmt::format(" Default: {}.", value);
  return term(name_with_hint(definition), help);
}

}  // namespace

std::string man_page(const std::vector<CommandSummary>& commands, const std::string& version) {
  const HelpTexts texts = help_texts(commands);
  std::string page = fmt::format(
      ".TH DDPBENCH 1 \"\" \"ddpbench {}\" \"User Commands\"\n.SH NAME\n"
      "ddpbench \\- compare data\\-parallel training strategies\n.SH SYNOPSIS\n",
      version);
  std::string synopsis;
  for (const auto& [line, help] : texts.usages) synopsis += line + "\n";
  page += verbatim(synopsis);
  page += fmt::format(".SH DESCRIPTION\n{}\n.SH COMMANDS\n", roff(texts.purpose));
  for (const auto& [line, help] : texts.usages) page += term(line, help);
  page += fmt::format(".SH OPTIONS\n{}\n", roff(texts.precedence));
  std::string group;
  for (const OptionDefinition& definition : option_table()) {
    if (definition.group != group) page += fmt::format(".SS {}\n", roff(definition.group));
    group = definition.group;
    page += option_term(definition);
  }
  for (const CommandSummary& command : commands)
    page += fmt::format(".SH DDPBENCH {}\n{}", roff(command.name), verbatim(command.help()));
  page += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : texts.exit_codes) page += term(std::to_string(code), meaning);
  page += ".SH ENVIRONMENT\nMost options have a variable; OPTIONS names it.\n";
  return page;
}

}  // namespace ddpbench::bench
