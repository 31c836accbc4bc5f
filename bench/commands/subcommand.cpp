// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/subcommand.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "bench/host/terminal.h"

namespace ddpbench::bench {
const std::vector<SubcommandEntry>& subcommands() {
  static const std::vector<SubcommandEntry> entries = {
      show_entry(),  why_entry(),    html_entry(),   chart_entry(),
      check_entry(), import_entry(), models_entry(), predict_entry(),
  };
  return entries;
}

const SubcommandEntry* find_subcommand(const std::string& name) {
  const auto found = std::ranges::find(subcommands(), name, &SubcommandEntry::name);
  return found == subcommands().end() ? nullptr : &*found;
}

int run_subcommand(const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                   const std::string& program) {
  const auto command = entry.make();
  CommandOptions options;
  command->define(options);
  if (!options.read(entry.name, arguments)) {
    say("{}", options.help(entry.summary, entry.usage));
    return 0;
  }
  command->command_line = {program, entry.name};
  command->command_line.insert(command->command_line.end(), arguments.begin(), arguments.end());
  return command->run();
}

void TextOutput::define(CommandOptions& options, const std::string& help) {
  options.add("-o,--output", "FILE", &path, help);
  options.add("--force", "", &force, "Overwrite FILE");
}

void TextOutput::name_after(const std::string& input, const char* extension,
                            const std::string& command) {
  if (!path.empty()) return;
  if (is_stream(input)) {
    throw ConfigError(fmt::format(
        "{}: {} has no name for what is written; give one with --output (- for standard output)",
        command, input_name(input)));
  }
  path = std::filesystem::path(input).filename().replace_extension(extension).string();
}

int TextOutput::width() const { return is_file() ? 0 : terminal_width(); }

void TextOutput::check(const std::string& command, const std::vector<std::string>& inputs) const {
  if (!is_file()) return;
  check_output_path(path, force);
  for (const std::string& input : inputs) {
    std::error_code code;
    if (!std::filesystem::equivalent(input, path, code)) continue;
    throw ConfigError(fmt::format("{}: {}: that is one of the reports to read; choose another name",
                                  command, path));
  }
}

void TextOutput::write(const std::string& text) const {
  if (is_file()) {
    write_file(path, text, {.force = force});
  } else {
    say("{}", text);
  }
}

std::vector<CommandSummary> command_summaries() {
  return mapped(subcommands(), [](const SubcommandEntry& entry) -> CommandSummary {
    return {entry.name, entry.usage, entry.summary, [&entry] {
              const auto command = entry.make();  // has the defaults that help shows
              CommandOptions options;
              command->define(options);
              return options.help(entry.summary, entry.usage);
            }};
  });
}

}  // namespace ddpbench::bench
