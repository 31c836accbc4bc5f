// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/commands/subcommand.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/nearest_name.h"
#include "bench/options/option_help.h"
#include "bench/options/option_parser.h"
#include "bench/options/option_table.h"
#include "reports/atomic_file.h"

namespace ddpbench::bench {
namespace {

// CLI11's layout, with our line of usage and options laid out as in ddpbench --help.
class UsageFormatter final : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: " + usage_ + "\n";
  }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return two_columns(make_option_name(option, is_positional) + make_option_opts(option),
                       option->get_description());
  }

 private:
  std::string usage_;
};

// The application of one subcommand, ready to parse or to print its help.
struct Application {
  explicit Application(const SubcommandEntry& entry)
      : command(entry.make()), app(entry.summary + ".", entry.name) {
    app.formatter(std::make_shared<UsageFormatter>(entry.usage));
    app.set_help_flag("-h,--help", "Print this text and stop");
    command->define(app);
    app.allow_extras(false);
  }
  std::unique_ptr<Subcommand> command;
  CLI::App app;
};

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

// "--bucket_cap=4" as "--bucket-cap=4"; unknown options are refused here, with the nearest name.
std::string normalized(const std::string& argument, const SubcommandEntry& entry,
                       const std::vector<std::string>& known) {
  if (!argument.starts_with("--") || argument.size() == 2) return argument;
  const std::size_t equals = std::min(argument.find('='), argument.size());
  const std::string name = with_dashes(argument.substr(2, equals - 2));
  if (std::ranges::find(known, name) == known.end()) {
    const auto near = nearest_name(name, known);
    throw ConfigError(
        fmt::format("{0}: --{1}: unknown option.{2} `ddpbench {0} --help` "
                    "lists them all.",
                    entry.name, name, near ? fmt::format(" Did you mean '--{}'?", *near) : ""));
  }
  return "--" + name + argument.substr(equals);
}

}  // namespace

const std::vector<SubcommandEntry>& subcommands() {
  static const std::vector<SubcommandEntry> entries = {
      show_entry(), html_entry(), chart_entry(), check_entry(), comm_entry(),
  };
  return entries;
}

const SubcommandEntry* find_subcommand(const std::string& name) {
  const auto found = std::ranges::find(subcommands(), name, &SubcommandEntry::name);
  return found == subcommands().end() ? nullptr : &*found;
}

int run_subcommand(const SubcommandEntry& entry, const std::vector<std::string>& arguments,
                   const std::string& program) {
  Application application(entry);
  const std::vector<std::string> known = long_options(application.app);
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    words.push_back(normalized(argument, entry, known));
  }
  std::ranges::reverse(words);
  try {
    application.app.parse(words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", subcommand_help(entry));
    return 0;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(
        fmt::format("{0}: {1}. `ddpbench {0} --help` shows the usage.", entry.name, error.what()));
  }
  auto& command_line = application.command->command_line;
  command_line = {program, entry.name};
  command_line.insert(command_line.end(), arguments.begin(), arguments.end());
  return application.command->run();
}

void check_output(const std::string& command, const std::string& output,
                  const std::vector<std::string>& inputs, bool force) {
  report::check_output_path(output, force);
  for (const std::string& input : inputs) {
    std::error_code code;
    if (!std::filesystem::equivalent(input, output, code)) continue;
    throw ConfigError(
        fmt::format("{}: --output={}: that is one of the reports to read; choose another name",
                    command, output));
  }
}

std::string subcommand_help(const SubcommandEntry& entry) {
  const Application application(entry);
  return application.app.help();
}

std::vector<CommandSummary> command_summaries() {
  std::vector<CommandSummary> summaries;
  for (const SubcommandEntry& entry : subcommands())
    summaries.push_back(
        {entry.name, entry.usage, entry.summary, [&entry] { return subcommand_help(entry); }});
  return summaries;
}

}  // namespace ddpbench::bench
