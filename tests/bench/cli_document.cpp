// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// Makes docs/cli.md from the option table.
#include <fmt/format.h>

#include <ranges>
#include <string_view>

#include "base/ranges.h"
#include "base/text.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"
#include "tests/bench/option_documents.h"

namespace ddpbench::bench {
namespace {

constexpr std::string_view kPurpose =
    "Trains one network with several data-parallel strategies, proves that they compute the same "
    "thing, times them, and writes one report.";

// The text of a cell of a Markdown table.
std::string cell(std::string_view text) { return joined(split(text, '|'), "\\|"); }

std::string code(std::string_view text) {
  return text.empty() ? "" : fmt::format("`{}`", cell(text));
}

std::string keys_cell(const OptionDefinition& definition) {
  return joined(definition.file_keys(), ", ",
                [](const std::string& key) { return code(key.substr(1)); });
}

// "`strategy`, `gpus`, ...": the keys of an entry of "runs".
std::string entry_keys() {
  return joined(option_table() | std::views::filter(&OptionDefinition::is_per_run), ", ",
                [](const auto& definition) { return code(definition.canonical_key().substr(1)); });
}

std::string option_row(const OptionDefinition& definition) {
  const bool flag = definition.is_flag();
  const bool variable = definition.is_variable();
  return fmt::format("| {} | {} | {} | {} | {} |\n",
                     flag ? code(name_with_hint(definition)) : code(definition.hint),
                     code(default_text(definition)),
                     variable ? code(definition.variables().front()) : "", keys_cell(definition),
                     cell(definition.help));
}

}  // namespace

std::string cli_document(const std::vector<CommandSummary>& commands) {
  std::string text =
      "<!-- SPDX-FileCopyrightText: The ddpbench authors -->\n"
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<!-- Made from bench/options/option_definitions.cpp; a test compares both and says how to "
      "renew this. -->\n\n"
      "# Command line\n\n";
  text += fmt::format("{}\n\n| command | does |\n|---|---|\n", kPurpose);
  for (const TableCommand& row : table_commands())
    text += fmt::format("| `{}` | {} |\n", row.usage, cell(row.help));
  for (const CommandSummary& command : commands)
    text += fmt::format("| `{}` | {} |\n", cell(command.usage), command.summary);
  text += fmt::format("\n{}\n", option_precedence());
  for (const std::string& group : option_group_names()) {
    text += fmt::format(
        "\n## {}\n\n| value | default | variable | configuration key | meaning |\n"
        "|---|---|---|---|---|\n",
        group);
    for (const OptionDefinition& definition : option_table())
      if (definition.group == group) text += option_row(definition);
  }
  text +=
      "\n`ddpbench COMMAND --help` lists which of these fit, comm, info and data take; tune takes "
      "most.\n";
  for (const CommandSummary& command : commands)
    text += fmt::format("\n## ddpbench {}\n\n```\n{}```\n", command.name, command.help());
  text += "\n## Exit codes\n\n| exit | meaning |\n|---|---|\n";
  for (const ExitCode& exit : exit_codes())
    text += fmt::format("| {} | {} |\n", exit.code, exit.meaning);
  return text + fmt::format(
                    "\n## Variables that are not options\n\nSet by the program, its scripts or "
                    "launchers for the processes that they start: `{}`.\n"
                    "\n## Keys of runs\n\nAn entry of `runs` (below) may have these keys. All "
                    "others are the same for all runs of a report.\n\n{}.\n",
                    fmt::join(reserved_variables(), "`, `"), entry_keys());
}

}  // namespace ddpbench::bench
