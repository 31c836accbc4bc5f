// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ranges>
#include <span>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/ranges.h"
#include "base/text.h"
#include "bench/host/build_info.h"
#include "bench/options/command_words.h"
#include "bench/options/option_source.h"
#include "bench/options/option_value.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/strategies.h"

namespace ddpbench::bench {

namespace {

[[noreturn]] void refuse_argument(const std::string& argument,
                                  const std::vector<CommandSummary>& commands) {
  std::vector<std::string> known;
  for (const TableCommand& row : table_commands()) known.push_back(row.words);
  for (const CommandSummary& command : commands) known.push_back(command.name);
  throw ConfigError(fmt::format(
      "unexpected argument '{}'.{} A command comes first; lists are written with commas "
      "(--gpus=1,2,4); `ddpbench --help` lists the commands.",
      argument, suggestion(argument, known)));
}

// What the words of a command line amount to.
struct Flags {
  CommandWords words;
  Command command = Command::run;
  bool is_data = false;                 // whichever `data` command it is
  std::vector<std::string> names = {};  // of `data fetch`
};

// The flags of the table. Those of `comm` come first where it is the command: some of their other
// names are options of runs.
Definitions flag_rows(const std::vector<std::string>& arguments) {
  Definitions rows;
  for (const OptionDefinition& definition : option_table())
    if (definition.is_flag()) rows.push_back(definition);
  if (!arguments.empty() && arguments.front() == table_command(Command::comm).words)
    std::ranges::stable_partition(rows, [](const OptionDefinition& definition) {
      return definition.applies_to(Command::comm);
    });
  return rows;
}

Flags read_flags(const std::vector<std::string>& arguments,
                 const std::vector<CommandSummary>& commands) {
  Flags flags{read_words("", flag_rows(arguments), arguments)};
  const std::vector<std::string>& names = flags.words.names;
  flags.is_data = !names.empty() && names.front() == "data";
  std::size_t used = flags.is_data ? 1 : 0;
  const std::string all = fmt::format("{} ", fmt::join(names, " "));
  for (const TableCommand& row : table_commands()) {
    if (row.words.empty() || !all.starts_with(row.words + " ")) continue;
    flags.command = row.command;
    used = static_cast<std::size_t>(std::ranges::count(row.words, ' ')) + 1;
  }
  if (flags.command == Command::data_fetch) {
    flags.names.assign(names.begin() + static_cast<std::ptrdiff_t>(used), names.end());
    used = names.size();
  }
  if (used < names.size())
    refuse_argument(flags.is_data ? "data " + names[used] : names[used], commands);
  if (flags.words.has("help")) return flags;
  if (flags.is_data && flags.command == Command::run && !flags.words.has("version"))
    throw ConfigError("ddpbench data needs to know what to do: data list, or data fetch NAME.");
  if (flags.command == Command::data_fetch && flags.names.empty())
    throw ConfigError("ddpbench data fetch needs the names of data sets, for example: mnist.");
  return flags;
}

// Refuses a flag that belongs to other commands.
[[noreturn]] void refuse_flag(const OptionDefinition& definition, Command command) {
  std::vector<std::string> others;
  for (const TableCommand& other : table_commands()) {
    if (other.command == command || !definition.applies_to(other.command)) continue;
    others.push_back(other.spoken());
  }
  throw ConfigError(
      fmt::format("{} does not apply to {}{}.", definition.flag(), table_command(command).spoken(),
                  others.empty() ? "" : fmt::format(", but to {}", fmt::join(others, ", "))));
}

OptionSource flag_source(const Flags& flags) {
  OptionSource source;
  for (const OptionDefinition& definition : option_table()) {
    const auto given = flags.words.options.find(definition.name);
    if (given == flags.words.options.end()) continue;
    if (!definition.applies_to(flags.command)) refuse_flag(definition, flags.command);
    source.add(definition, words_of_texts(definition, given->second, definition.flag()),
               definition.flag());
  }
  return source;
}

// The defaults of `tune` replace those of the configuration file and the usual ones: many short
// runs. `tune` fills the lists that the user does not give.
void set_tune_defaults(Options& options) {
  options.strategies = {"ddp"};
  options.until_ci.reset();
  options.until_accuracy.reset();
  options.until_miou.reset();
  options.save_model.clear();
  options.checkpoint.clear();
  options.resume_training.clear();
  options.order = "interleaved";
  options.epochs = 1;
  options.steps = 100;
  options.repetitions = 3;
  options.first_buckets_mb.clear();
  options.bucket_caps_mb.clear();
  options.overlaps.clear();
}

// What the flags, the variables and the configuration file give.
struct GivenLayers {
  OptionSource given, variables, file;
  std::vector<RunEntry> entries;  // of the file
  std::string config_path;        // empty: there is no file
};

GivenLayers read_layers(const Flags& flags, const ParseContext& context) {
  GivenLayers layers{.given = flag_source(flags),
                     .variables = variable_source(context.variables, flags.command)};
  // The highest layer that names a configuration file counts.
  const OptionSource::Given* given = layers.given.find("config");
  if (given == nullptr) given = layers.variables.find("config");
  if (given == nullptr) return layers;
  layers.config_path = find_config(given->words.front().text, context.config_directories);
  nlohmann::json content = read_config(layers.config_path);
  const std::string origin = input_name(layers.config_path);
  layers.entries = take_run_entries(content, origin);
  layers.file = file_source(content, origin);
  if (flags.command != Command::run && !layers.entries.empty())
    throw ConfigError(fmt::format("{}: /runs: {} makes its own runs; use a configuration without.",
                                  origin, table_command(flags.command).spoken()));
  return layers;
}

// The options of the command, or of an entry of "runs": its values are above those of the file
// around it, and below variables and flags. Adds what is to be said of them to `notes`, once.
Options resolve(const GivenLayers& layers, Command command, const RunEntry* entry,
                std::vector<std::string>& notes) {
  Options options;
  std::vector<const OptionSource*> order = {&layers.file};
  options.strategies = known_strategies();
  layers.file.apply(options);
  if (command == Command::tune) set_tune_defaults(options);
  // What verification needs would hide what a strategy saves.
  if (command == Command::fit) options.verify_steps = 0;
  if (entry != nullptr) order.push_back(&entry->source);
  order.push_back(&layers.variables);
  order.push_back(&layers.given);
  for (const OptionSource* source : std::span(order).subspan(1)) source->apply(options);
  options.config_path = layers.config_path;
  const bool chosen = std::ranges::any_of(
      order, [](const OptionSource* source) { return source->find("strategy") != nullptr; });
  const bool saves = !options.save_model.empty() || !options.checkpoint.empty();
  if (command == Command::run && !chosen && saves) options.strategies = {"single"};
  if (options.emulate_link == "none") options.emulate_link.clear();
  comm::parse_link(options.emulate_link);  // or it throws
  settle_conditions(options, order);
  settle_data(options, order);
  for (std::string& note : set_optimizer_defaults(options, order)) {
    if (std::ranges::count(notes, note) == 0) notes.push_back(std::move(note));
  }
  if (options.batch_sizes.empty() && options.global_batch_sizes.empty())
    options.batch_sizes = {kDefaultBatchSize};
  return options;
}

// Errors that name no key of the entry say where it stands.
Options resolve_entry(const GivenLayers& layers, const RunEntry& entry,
                      std::vector<std::string>& notes) {
  try {
    Options options = resolve(layers, Command::run, &entry, notes);
    check_file_conflicts(options);
    check_options(options);
    return options;
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    if (message.starts_with(entry.where)) throw;
    throw ConfigError(fmt::format("{}: {}", entry.where, message));
  }
}

std::string help_of(const Flags& flags) {
  constexpr std::array kData = {Command::data_list, Command::data_fetch};
  if (flags.command != Command::run) return command_help_text(std::span(&flags.command, 1));
  return flags.is_data ? command_help_text(kData) : std::string(short_help());
}

// Whether a launcher started this process beside others, or seems to.
bool is_one_of_several(const std::map<std::string, std::string>& variables) {
  try {
    const auto place = launch::read_rank_environment(variables);
    return place && place->world_size > 1;
  } catch (const ConfigError&) {
    return true;  // who makes the run says what is wrong
  }
}

// Makes a run that says nothing of what is compared, such as --model=NAME alone or none at all, a
// short comparison. Returns whether it did.
bool choose_first_answer(Flags& flags, const ParseContext& context) {
  // What says which runs are made, or starts ranks whose number does.
  constexpr const char* kDecisive[] = {"config",     "strategy",        "gpus",       "resume",
                                       "save-model", "resume-training", "hosts",      "checkpoint",
                                       "hostfile",   "launcher",        "local-rank", "load-model"};
  auto& given = flags.words.options;
  const auto value_of = [&](const char* option) -> std::string {
    if (const auto flag = given.find(option); flag != given.end()) return flag->second.back();
    for (const std::string& name : find_flag(option)->variables()) {
      const auto found = context.variables.find(name);
      if (found != context.variables.end() && !found->second.empty()) return found->second;
    }
    return "";
  };
  const auto is_given = [&](const char* option) {
    return given.contains(option) || !value_of(option).empty();
  };
  if (flags.command != Command::run || std::ranges::any_of(kDecisive, is_given)) return false;
  if (!given.empty() && is_one_of_several(context.variables)) return false;
  // The data of that comparison are for its network.
  if (is_given("model") && !is_given("dataset")) given["dataset"] = {"auto"};
  given["config"] = {context.first_answer(value_of("model"))};
  return true;
}

std::string first_answer_note(const Options& options, const std::string& config) {
  const std::string steps = options.steps ? " of " + counted(*options.steps, "step") : "";
  return fmt::format("compares as configs/{}.json: {} on {} devices, {}{}", config,
                     fmt::join(options.strategies, ", "), fmt::join(options.gpus, " and "),
                     counted(options.epochs, "epoch"), steps);
}

}  // namespace

ParsedCommand parse_command(const std::vector<std::string>& arguments,
                            const ParseContext& context) {
  const std::string first = arguments.empty() ? "" : arguments.front();
  if (first == "help") {
    const std::string topic = joined(arguments | std::views::drop(1), " ");
    std::string text = topic_help(topic, context.commands);
    return {.command = Command::help, .text = std::move(text)};
  }
  if (first == "version" && arguments.size() == 1) return parse_command({"--version"}, context);
  Flags flags = read_flags(arguments, context.commands);
  if (flags.words.has("help")) return {.command = Command::help, .text = help_of(flags)};
  if (flags.words.has("version")) return {.command = Command::version, .text = version_text()};

  const bool answers = context.first_answer != nullptr && choose_first_answer(flags, context);
  ParsedCommand parsed{.command = flags.command, .names = flags.names};
  const GivenLayers layers = read_layers(flags, context);
  if (std::string note = ignored_variables(context.variables); !note.empty())
    parsed.notes.push_back(std::move(note));
  std::vector<std::string> notes;  // of what is around entries, where there are some
  parsed.options =
      resolve(layers, flags.command, nullptr, layers.entries.empty() ? parsed.notes : notes);
  check_file_conflicts(parsed.options);
  if (layers.entries.empty()) check_options(parsed.options);
  for (const RunEntry& entry : layers.entries) {
    parsed.options.runs.push_back(resolve_entry(layers, entry, parsed.notes));
  }
  if (!answers) return parsed;
  parsed.options.gpus_given.is_set = is_one_of_several(context.variables);
  parsed.notes.push_back(
      first_answer_note(parsed.options, flags.words.options.at("config").back()));
  return parsed;
}

}  // namespace ddpbench::bench
