// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_help.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/options/option_value.h"
#include "datasets/catalog.h"

namespace ddpbench::bench {
namespace {

// Where explanations begin; longer flags get their own line.
constexpr std::size_t kExplanationColumn = 31;

// What most people need, on one screen. Tests hold it to the table: options and commands that are
// there, 32 lines of 80 columns.
constexpr std::string_view kShortHelp =
    R"(ddpbench: which data-parallel strategy is fastest on this machine, and why?

  ddpbench [OPTION]...     train with each strategy, verify, time, compare
  ddpbench COMMAND ...     see below

What most people need; without --strategy, --gpus, --config: configs/quick.json
  --strategy=LIST       single, dp, ddp, ps, zero1, zero2, zero3, or all   [all]
  --gpus=LIST           1,2,4 devices (CPU devices too), or all              [1]
  --model=NAME          network; `ddpbench models` lists them       [simple_cnn]
  --batch-size=N        samples per device and step                         [64]
  --steps=N             end each epoch after N steps              [whole epochs]
  --repetitions=N       repeat every run, to tell differences from noise     [1]
  --config=FILE         these and all other settings from a file
  --data-dir=DIR        where data sets are               [~/.cache/ddpbench]
  --json=FILE           where the report goes        [ddpbench-<UTC time>.json]
  --dry-run             check everything and say how long it would take

With reports:                        Measure or plan:
  show     table, csv, json, history   tune    ddp's best bucket sizes
  why      where a step's time goes    comm    collectives alone
  chart    picture: svg, png, pdf      fit     largest batch that fits
  html     one page to share           models  networks and their size
  check    regression gate for CI      data    list or download data sets
  import   times of your own program   info    this machine, this build
  predict  steps on more devices

  ddpbench                             a first answer in two minutes
  ddpbench --model=resnet18 --batch-size=16 --steps=20    one for your network
  ddpbench check new.json --baseline base.json     exit 6: something is slower

More: ddpbench help options | hosts | config | exit-codes, COMMAND --help,
man ddpbench
)";

constexpr std::string_view kPrecedence =
    "Options marked LIST or ,... take several values, separated by commas. All combinations run; "
    "options that a strategy does not have are skipped for it. Later wins: defaults, the "
    "configuration file, DDPBENCH_ variables, flags. Most options have a variable (--batch-size: "
    "DDPBENCH_BATCH_SIZE; on or off for switches; empty: not set). Most have a key in "
    "configuration files (batch_size). Long options accept - and _. Relative paths start at the "
    "working directory.";

constexpr ExitCode kExitCodes[] = {
    {0, "done"},
    {1, "internal error"},
    {2, "usage, configuration or data error, or training diverged"},
    {3, "a device, backend or library is not here, or a system limit is reached"},
    {4, "a rank died, a host cannot be used, or a deadline passed"},
    {5, "strategies disagree: verification failed"},
    {6, "regression (check)"},
    {7, "inconclusive (check)"},
    {130, "interrupted; a partial report was written"},
};

// The options that `takes` admits, under the names of their groups.
std::string option_groups(const std::function<bool(const OptionDefinition&)>& takes) {
  std::string text;
  for (const std::string& group : option_group_names()) {
    std::string lines;
    for (const OptionDefinition& definition : option_table())
      if (definition.group == group && takes(definition)) lines += option_lines(definition);
    if (!lines.empty()) text += fmt::format("\n{}:\n{}", group, lines);
  }
  return text;
}

constexpr std::string_view kRunsHelp =
    "What each run differs in: a list of objects, each with the keys of its runs. docs/cli.md has "
    "the rules.";

}  // namespace

std::vector<std::string> option_group_names() {
  std::vector<std::string> names;
  for (const OptionDefinition& definition : option_table())
    if (names.empty() || names.back() != definition.group) names.push_back(definition.group);
  return names;
}

std::string_view option_precedence() { return kPrecedence; }
std::span<const ExitCode> exit_codes() { return kExitCodes; }

const std::vector<TableCommand>& table_commands() {
  static const std::vector<TableCommand> rows = {
      {Command::run, "", "ddpbench [OPTION]...", "compare strategies"},
      {Command::tune, "tune", "ddpbench tune [OPTION]...",
       "find ddp's best bucket sizes (--bucket-cap-mb, --first-bucket-mb) for this network and "
       "machine; it takes most options of a run, too (`ddpbench help options`)"},
      {Command::fit, "fit", "ddpbench fit [OPTION]...",
       "the largest batch of every strategy that fits in memory, without training"},
      {Command::comm, "comm", "ddpbench comm [OPTION]...",
       "measure collectives alone, compared with what memory allows"},
      {Command::info, "info", "ddpbench info",
       "version, what was built in, devices, libraries, limits"},
      {Command::data_list, "data list", "ddpbench data list", "which data sets are there"},
      {Command::data_fetch, "data fetch", "ddpbench data fetch NAME...",
       fmt::format("download data sets: {}", fmt::join(data::published_datasets(), "|"))},
  };
  return rows;
}

const TableCommand& table_command(Command command) {
  return *std::ranges::find(table_commands(), command, &TableCommand::command);
}

std::string TableCommand::spoken() const {
  return words.empty() ? "a run (`ddpbench` without a command)"
                       : fmt::format("`ddpbench {}`", words);
}

std::string name_with_hint(const OptionDefinition& definition) {
  const std::string& hint = definition.hint;
  if (definition.has(kTakesWords) && !definition.is_flag())
    return definition.name + (hint == "..." || hint.empty() ? hint : " " + hint);
  if (!definition.is_flag()) return fmt::format("{}: {}", definition.name, hint);
  return fmt::format("{}{}{}", fmt::join(definition.flags(), ", "), hint.empty() ? "" : "=", hint);
}

std::string option_lines(const OptionDefinition& definition) {
  std::string help = definition.help;
  const std::string value = default_text(definition);
  if (!value.empty() && !definition.is_switch()) help += fmt::format(" [{}]", value);
  return two_columns(name_with_hint(definition), help);
}

std::string two_columns(std::string_view name, std::string_view help) {
  std::string line = fmt::format("  {}", name);
  if (line.size() >= kExplanationColumn)
    line.append("\n").append(kExplanationColumn, ' ');
  else
    line.resize(kExplanationColumn, ' ');
  return line + wrap(help, kHelpColumns, kExplanationColumn, kExplanationColumn);
}

std::string_view short_help() { return kShortHelp; }

std::string topic_help(const std::string& topic, const std::vector<CommandSummary>& commands) {
  if (topic.empty() || topic == "help" || topic.starts_with('-')) return std::string(kShortHelp);
  if (topic == "options") {
    std::string text = "Usage:\n";
    for (const TableCommand& row : table_commands()) text += two_columns(row.usage, row.help);
    for (const CommandSummary& command : commands)
      text += two_columns(command.usage, command.summary);
    return text + option_groups([](const OptionDefinition&) { return true; });
  }
  if (topic == "hosts") {
    return option_groups(
        [](const OptionDefinition& definition) { return definition.group == kHostsGroup; });
  }
  if (topic == "config") {
    return wrap(kPrecedence, kHelpColumns, 0) +
           option_groups([](const OptionDefinition& definition) { return !definition.is_flag(); }) +
           two_columns("runs: LIST", kRunsHelp);
  }
  if (topic == "exit-codes") {
    return joined(kExitCodes, "", [](const ExitCode& exit) {
      return fmt::format("{:>3}  {}\n", exit.code, exit.meaning);
    });
  }
  const auto command = std::ranges::find(commands, topic, &CommandSummary::name);
  if (command != commands.end()) return command->help();
  std::vector<Command> shared;
  for (const TableCommand& row : table_commands())
    if (topic == row.words || topic == row.words.substr(0, row.words.find(' ')))
      shared.push_back(row.command);
  if (!shared.empty()) return command_help_text(shared);
  throw ConfigError(
      fmt::format("help: there is no topic '{}'; there are options, hosts, config, exit-codes and "
                  "the commands.",
                  topic));
}

std::string command_help_text(std::span<const Command> commands) {
  std::string text = "Usage:\n";
  for (const TableCommand& row : table_commands()) {
    if (std::ranges::count(commands, row.command) > 0) text += two_columns(row.usage, row.help);
  }
  text += option_groups([&](const OptionDefinition& definition) {
    if (commands.front() == Command::tune && definition.applies_to(Command::run)) return false;
    return std::ranges::any_of(commands,
                               [&](Command command) { return definition.applies_to(command); });
  });
  return text + "\n" +
         wrap(
             "`ddpbench help options` shows all commands, `ddpbench help exit-codes` the exit "
             "codes.",
             kHelpColumns, 0);
}

}  // namespace ddpbench::bench
