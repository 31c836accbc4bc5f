// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"
#include "datasets/catalog.h"

namespace ddpbench::bench {
namespace {

constexpr std::size_t kExplanationColumn =
    31;  // where explanations begin; longer flags get their own line

constexpr std::string_view kPurpose =
    "Trains one network with several data-parallel strategies, proves that they compute the same "
    "thing, times them, and writes one report.";

constexpr std::string_view kPrecedence =
    "LIST, and \",...\" in what a value looks like: several with commas, of which every "
    "combination "
    "that a strategy heeds is run. Later wins: defaults, the configuration file, DDPBENCH_ "
    "variables, flags. Most options have a "
    "variable (--batch-size: DDPBENCH_BATCH_SIZE; on or off for switches; an empty one counts as "
    "not "
    "set) and, except --config, --help and --version, a key in configuration files (batch_size). "
    "Long options accept - and _. Relative paths start at the working directory.";

struct Usage {
  Command command;
  std::string line, help;
};
const std::vector<Usage>& usages() {
  static const std::vector<Usage> rows = {
      {Command::run, "ddpbench [OPTION]...", "compare strategies"},
      {Command::tune, "ddpbench tune [OPTION]...",
       "find ddp's best bucket sizes for this network and machine"},
      {Command::fit, "ddpbench fit [OPTION]...",
       "the largest batch of every strategy that fits in memory, without training"},
      {Command::info, "ddpbench info", "version, what was built in, devices, libraries, limits"},
      {Command::data_list, "ddpbench data list", "which data sets are there"},
      {Command::data_fetch, "ddpbench data fetch NAME...",
       fmt::format("download data sets: {}", fmt::join(data::published_datasets(), "|"))},
  };
  return rows;
}

struct ExitCode {
  int code;
  const char* meaning;
};
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

std::string option_lines(const OptionDefinition& definition) {
  std::string help = definition.help;
  const std::string value = default_text(definition);
  if (!value.empty() && !definition.is_switch()) help += fmt::format(" [{}]", value);
  return two_columns(name_with_hint(definition), help);
}

std::vector<std::string> groups() {
  std::vector<std::string> names;
  for (const OptionDefinition& definition : option_table())
    if (names.empty() || names.back() != definition.group) names.push_back(definition.group);
  return names;
}

// The options that `takes` admits, under the names of their groups.
std::string option_groups(const std::function<bool(const OptionDefinition&)>& takes) {
  std::string text;
  for (const std::string& group : groups()) {
    std::string lines;
    for (const OptionDefinition& definition : option_table())
      if (definition.group == group && takes(definition)) lines += option_lines(definition);
    if (!lines.empty()) text += fmt::format("\n{}:\n{}", group, lines);
  }
  return text;
}

// The text of a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : fmt::format("`{}`", cell(text));
}

std::string keys_cell(const OptionDefinition& definition) {
  std::vector<std::string> keys;
  for (const std::string& key : definition.file_keys()) keys.push_back(code(key.substr(1)));
  return fmt::format("{}", fmt::join(keys, ", "));
}

// "`strategy`, `gpus`, ...": the keys of an entry of "runs".
std::string entry_keys() {
  std::vector<std::string> keys;
  for (const OptionDefinition& definition : option_table()) {
    if (definition.is_per_run()) keys.push_back(code(definition.canonical_key().substr(1)));
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::string option_row(const OptionDefinition& definition) {
  const bool flag = (definition.sources & kFlag) != 0;
  const bool variable = (definition.sources & kVariable) != 0;
  return fmt::format("| {} | {} | {} | {} | {} |\n",
                     flag ? code(name_with_hint(definition)) : code(definition.hint),
                     code(default_text(definition)), variable ? code(definition.variable()) : "",
                     keys_cell(definition), cell(definition.help));
}

constexpr std::string_view kRunsHelp =
    "What each run differs in: a list of objects, each with the keys of its runs. docs/cli.md has "
    "the rules.";

constexpr const char* kRunsText = R"(
## A list of runs

Lists of options make every combination. Where a comparison is of some combinations only, a configuration lists its runs:

    {"model": "simple_cnn", "epochs": 5,
     "runs": [{"comment": "as published", "strategy": "dp", "gpus": 2, "global_batch_size": 256, "loader_workers": 4},
              {"strategy": "ddp", "gpus": 2, "batch_size": 1024, "loader_workers": 2},
              {"strategy": ["dp", "ddp"], "gpus": 2, "global_batch_size": 256}]}

- An entry has what its runs differ in from the rest of the file; what it leaves out is as the rest says. A batch size
  replaces the other kind of batch size, and an optimizer the numbers of another one, as between the file and flags.
- Lists in an entry, or in the rest of the file, make every combination within the entry. A run that an earlier entry
  makes is not made again. An entry all of whose runs are made by earlier ones is refused (exit 2); where that is so on
  this machine or with this network alone, a note says so.
- Variables and flags are above entries: `--loader-workers=0` holds for all runs. Where that leaves an entry without a
  run of its own, it is refused: `--strategy=dp` would make the two arms of a comparison one.
- An entry may have these keys; all others are the same for all runs of a report: {}.
- All runs are in one report, with `--repetitions` interleaved as in a sweep. `--dry-run` shows each; `--resume` takes
  only a report with the same list. What does not do the same work (another global batch, say) is never ranked together
  ([metrics.md](metrics.md#recommendation)). tune and fit, and ranks that a launcher starts, take no list.
- Errors name the place: `my.json: /runs/2/gpus: ...`.
)";

constexpr const char* kLauncherText = R"(
## Runs on hosts, or started by mpirun or srun

`--hosts=a:2,b:2` (or `--hostfile`) makes the matrix of a command on these hosts, and `--launcher=mpirun` or `srun` has
that program start the ranks of each run; either way there is one report, made here. [launch.md](launch.md) has exact
lines, and what the hosts need.

    ddpbench --hosts=a:2,b:2 --strategy=single,ddp,ps --gpus=1,2,4 --config=mnist

## Ranks that a launcher starts

torchrun, mpirun (Open MPI, MPICH, Intel MPI) and srun start one process a rank, all with the same options; so does
anybody who sets `RANK`, `LOCAL_RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT`. They make one run.

    mpirun -n 4 ddpbench --strategy=ddp --config=mnist.json

The ranks meet at the first free port from `MASTER_PORT` (29500) on, and let in only who has the job's secret. Rank 0
makes one and leaves it for the other ranks of the same user in a file of mode 0600, in `$XDG_RUNTIME_DIR/ddpbench` or
else `ddpbench-UID` below `$TMPDIR` or `/tmp`; it is removed when all ranks are here. Where the variables do not show
that all ranks are on this host, they must be given the secret, of 16 characters at least:

    export DDPBENCH_JOB_SECRET=$(head -c 32 /dev/urandom | base64)     # mpirun also needs: -x DDPBENCH_JOB_SECRET

Two jobs at once need different values of `MASTER_PORT`, unless their launcher names them (mpirun, srun, torchrun with
`--rdzv-id`). A second process with the same rank is refused (exit 2), and so are ranks whose options differ: the
message names the first option that does. Rank 0 writes the report. Should it die, the lowest rank that lives writes it
in the same place. `error.rank` names the rank that failed, not those that noticed.

Ranks are on one host when they can map each other's memory: one machine, one PID and user namespace, one user. Others,
and so containers of one machine, are on several hosts. They need the secret, but below srun `MASTER_ADDR` (an address of rank 0's
host) and a backend that spans hosts; `--backend=shm` is refused (exit 2) with the names of the hosts. The store then
listens at `MASTER_ADDR` alone, or on what rank 0's `--interface` names. The data set is decoded once a host and must be
the same on all, and the weights to verify against travel from rank 0. The report's `environment.hosts` lists the hosts,
`devices[].host` and `error.host` name those of ranks. Without rank 0's host the next host writes the report.
)";

std::string runs_text() {
  std::string text = kRunsText;
  const std::string_view place = "{}.\n";
  return text.replace(text.find(place), 2, entry_keys());
}

}  // namespace

std::string name_with_hint(const OptionDefinition& definition) {
  if ((definition.sources & kFlag) == 0) {
    return fmt::format("{}: {}", definition.name, definition.hint);
  }
  const std::string flag = definition.name == "help" ? "-h, --help" : definition.flag();
  return definition.is_switch() ? flag : flag + "=" + definition.hint;
}

HelpTexts help_texts(const std::vector<CommandSummary>& commands) {
  HelpTexts texts{std::string(kPurpose), std::string(kPrecedence), {}, {}};
  for (const Usage& usage : usages()) texts.usages.emplace_back(usage.line, usage.help);
  for (const CommandSummary& command : commands)
    texts.usages.emplace_back(command.usage, command.summary);
  for (const ExitCode& exit : kExitCodes) texts.exit_codes.emplace_back(exit.code, exit.meaning);
  return texts;
}

std::string two_columns(std::string_view name, std::string_view help) {
  std::string line = fmt::format("  {}", name);
  if (line.size() >= kExplanationColumn)
    line.append("\n").append(kExplanationColumn, ' ');
  else
    line.resize(kExplanationColumn, ' ');
  return line + wrap(help, kHelpColumns, kExplanationColumn, kExplanationColumn);
}

std::string help_text(const std::vector<CommandSummary>& commands) {
  std::string text = "Usage:\n";
  for (const Usage& usage : usages()) text += two_columns(usage.line, usage.help);
  for (const CommandSummary& command : commands)
    text += two_columns(command.usage, command.summary);
  text += fmt::format("\n{}", wrap(kPurpose, kHelpColumns, 0));
  text += option_groups([](const OptionDefinition&) { return true; });
  text += two_columns("runs: LIST", kRunsHelp);  // the last group is that of such keys
  text += fmt::format("\n{}\nExit codes:\n", wrap(kPrecedence, kHelpColumns, 0));
  for (const ExitCode& exit : kExitCodes)
    text += fmt::format("  {:>3}  {}\n", exit.code, exit.meaning);
  return text;
}

std::string command_help_text(std::span<const Command> commands) {
  std::string text = "Usage:\n";
  for (const Usage& usage : usages()) {
    if (std::ranges::find(commands, usage.command) != commands.end()) {
      text += two_columns(usage.line, usage.help);
    }
  }
  text += option_groups([&](const OptionDefinition& definition) {
    return std::ranges::any_of(commands,
                               [&](Command command) { return definition.applies_to(command); });
  });
  return text + "\n" +
         wrap("`ddpbench --help` shows all commands and the exit codes.", kHelpColumns, 0);
}

std::string cli_document(const std::vector<CommandSummary>& commands) {
  std::string text =
      "<!-- SPDX-FileCopyrightText: The ddpbench authors -->\n"
      "<!-- SPDX-License-Identifier: Apache-2.0 -->\n"
      "<!-- Made from bench/options/option_definitions.cpp; a test compares both and says how to "
      "renew "
      "this. "
      "-->\n\n"
      "# Command line\n\n";
  text += fmt::format("{}\n\n| command | does |\n|---|---|\n", kPurpose);
  for (const Usage& usage : usages())
    text += fmt::format("| `{}` | {} |\n", usage.line, cell(usage.help));
  for (const CommandSummary& command : commands)
    text += fmt::format("| `{}` | {} |\n", cell(command.usage), command.summary);
  text += fmt::format("\n{}\n", kPrecedence);
  for (const std::string& group : groups()) {
    text += fmt::format(
        "\n## {}\n\n| value | default | variable | configuration key | meaning |\n"
        "|---|---|---|---|---|\n",
        group);
    for (const OptionDefinition& definition : option_table())
      if (definition.group == group) text += option_row(definition);
  }
  text += runs_text();
  for (const CommandSummary& command : commands)
    text += fmt::format("\n## ddpbench {}\n\n```\n{}```\n", command.name, command.help());
  text += "\n## Exit codes\n\n| exit | meaning |\n|---|---|\n";
  for (const ExitCode& exit : kExitCodes)
    text += fmt::format("| {} | {} |\n", exit.code, exit.meaning);
  text += fmt::format(
      "\n## Variables that are not options\n\nSet by the program, its scripts or launchers for the "
      "processes that they start: `{}`.\n",
      fmt::join(reserved_variables(), "`, `"));
  text += kLauncherText;
  return text;
}

}  // namespace ddpbench::bench
