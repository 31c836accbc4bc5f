// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
//
// CLI11 tells flags, subcommands and names apart; values and their layers are ours.
#include "bench/options/option_parser.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/nearest_name.h"
#include "bench/host/build_info.h"
#include "bench/options/config_file.h"
#include "bench/options/option_help.h"
#include "bench/options/option_layer.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

// What the command line holds, as text.
struct Flags {
  std::map<std::string, std::vector<std::string>> values = {};  // by option name
  Command command = Command::run;
  std::vector<std::string> names = {};

  bool has(const std::string& name) const { return values.contains(name); }
};

const char* words_of(Command command) {
  switch (command) {
    case Command::tune:
      return "tune";
    case Command::info:
      return "info";
    case Command::data_list:
      return "data list";
    case Command::data_fetch:
      return "data fetch";
    case Command::help:
      return "--help";
    case Command::version:
      return "--version";
    case Command::run:
      break;
  }
  return "";
}

// As in a sentence.
std::string spoken(Command command) {
  return command == Command::run ? "a run (`ddpbench` without a command)"
                                 : fmt::format("`ddpbench {}`", words_of(command));
}

[[noreturn]] void refuse_argument(const std::string& argument,
                                  const std::vector<CommandSummary>& commands) {
  std::vector<std::string> known = {"tune", "info", "data", "data list", "data fetch"};
  for (const CommandSummary& command : commands) known.push_back(command.name);
  if (std::ranges::find(commands, argument, &CommandSummary::name) != commands.end()) {
    throw ConfigError(
        fmt::format("'{0}' must be the first word: ddpbench {0}, then its own options.", argument));
  }
  if (argument == "help")
    throw ConfigError(
        "there is no command 'help'. `ddpbench --help` shows the usage, `ddpbench COMMAND --help` "
        "that of show, chart and the like.");
  if (!argument.starts_with("-"))
    throw ConfigError(fmt::format(
        "unexpected argument '{}'.{} Lists are written with commas (--gpus=1,2,4); `ddpbench "
        "--help` lists the commands.",
        argument, suggestion(argument, known)));
  const std::string flag = argument.substr(0, argument.find('='));
  known.clear();
  for (const OptionDefinition& definition : option_table())
    if ((definition.sources & kFlag) != 0) known.push_back(definition.name);
  const auto near =
      nearest_name(flag.substr(std::min(flag.find_first_not_of('-'), flag.size())), known);
  throw ConfigError(fmt::format("{}: unknown option.{} `ddpbench --help` lists them all.", flag,
                                near ? fmt::format(" Did you mean '--{}'?", *near) : ""));
}

// Flags with '-' for '_'. CLI11 would take the next flag for a missing value, and the next argument
// for an empty one; both are refused here.
std::vector<std::string> normalized(const std::vector<std::string>& arguments,
                                    const std::vector<CommandSummary>& commands) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--") || argument.size() == 2) {
      result.push_back(argument);
      continue;
    }
    const std::size_t equals = std::min(argument.find('='), argument.size());
    const OptionDefinition* option = find_flag(argument.substr(2, equals - 2));
    if (option == nullptr) refuse_argument(argument, commands);
    const bool takes_next = equals == argument.size() && !option->is_switch();
    const bool next_is_value = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
    if (equals + 1 == argument.size() || (takes_next && !next_is_value))
      throw ConfigError(fmt::format("{0} needs a value: {0}={1}.", option->flag(),
                                    option->is_switch() ? "on|off" : option->hint));
    result.push_back(option->flag() + argument.substr(equals));
    if (takes_next) result.push_back(arguments[++i]);
  }
  return result;
}

// The application that CLI11 parses, with the places where it puts texts.
class CommandLine {
 public:
  explicit CommandLine(const std::vector<CommandSummary>& commands) : commands_(commands) {
    for (CLI::App* app : {&app_, tune_, info_, data_, list_, fetch_})
      app->set_help_flag();  // ours is an option
    app_.allow_extras();
    app_.require_subcommand(0, 1);
    for (const OptionDefinition& definition : option_table())
      if ((definition.sources & kFlag) != 0) add(definition);
    tune_->fallthrough();
    info_->fallthrough();
    data_->fallthrough()->require_subcommand(0, 1);
    list_->fallthrough();
    fetch_->fallthrough();
    fetch_->add_option("NAME", names_);
  }

  Flags parse(const std::vector<std::string>& arguments) {
    std::vector<std::string> reversed = normalized(arguments, commands_);
    std::ranges::reverse(reversed);
    try {
      app_.parse(reversed);
    } catch (const CLI::ParseError& error) {
      throw ConfigError(fmt::format("{} `ddpbench --help` shows the usage.", error.what()));
    }
    const auto extras = app_.remaining(true);
    Flags flags{.command = command(), .names = names_};
    for (const auto& [name, option] : options_)
      if (option->count() > 0) flags.values[name] = option->results();
    if (flags.has("help") || !extras.empty()) return with_extras(flags, extras);
    check_data(flags);
    return flags;
  }

 private:
  void add(const OptionDefinition& definition) {
    const std::string dashed = definition.flag();
    CLI::Option* option =
        definition.name == "help" ? app_.add_flag("-h,--help", ignored_)
        : definition.is_switch()
            ? app_.add_flag(dashed + "{on}", ignored_)  // what the switch alone means
            : app_.add_option(dashed, [](const CLI::results_t&) { return true; });
    options_[definition.name] = option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  Command command() const {
    if (tune_->parsed()) return Command::tune;
    if (info_->parsed()) return Command::info;
    if (list_->parsed()) return Command::data_list;
    if (fetch_->parsed()) return Command::data_fetch;
    return Command::run;
  }

  Flags with_extras(const Flags& flags, const std::vector<std::string>& extras) const {
    if (!flags.has("help")) refuse_argument(extras.front(), commands_);
    return flags;
  }

  void check_data(const Flags& flags) const {
    if (data_->parsed() && flags.command == Command::run && !flags.has("version"))
      throw ConfigError("ddpbench data needs to know what to do: data list, or data fetch NAME.");
    if (flags.command == Command::data_fetch && flags.names.empty())
      throw ConfigError("ddpbench data fetch needs the names of data sets, for example: mnist.");
  }

  const std::vector<CommandSummary>& commands_;
  CLI::App app_;
  CLI::App* tune_ = app_.add_subcommand("tune");
  CLI::App* info_ = app_.add_subcommand("info");
  CLI::App* data_ = app_.add_subcommand("data");
  CLI::App* list_ = data_->add_subcommand("list");
  CLI::App* fetch_ = data_->add_subcommand("fetch");
  std::vector<std::string> ignored_;  // texts are read from the options themselves
  std::map<std::string, CLI::Option*> options_;
  std::vector<std::string> names_;
};

// One text a flag; --inject, which may be repeated, as one text with ';'.
std::string only_value(const OptionDefinition& definition, const std::vector<std::string>& values) {
  const bool repeatable =
      std::holds_alternative<std::vector<Injection> Options::*>(definition.member);
  if (values.size() > 1 && !repeatable)
    throw ConfigError(fmt::format("{} is given {} times; give it once{}.", definition.flag(),
                                  values.size(), definition.is_list() ? ", with commas" : ""));
  return fmt::format("{}", fmt::join(values, ";"));
}

// A flag of other commands.
[[noreturn]] void refuse_flag(const OptionDefinition& definition, Command command) {
  std::vector<std::string> others;
  for (const Command other :
       {Command::run, Command::tune, Command::info, Command::data_list, Command::data_fetch}) {
    if (other == command || !definition.applies_to(other)) continue;
    others.push_back(spoken(other));
  }
  throw ConfigError(
      fmt::format("{} does not apply to {}{}.", definition.flag(), spoken(command),
                  others.empty() ? "" : fmt::format(", but to {}", fmt::join(others, ", "))));
}

Layer flag_layer(const Flags& flags) {
  Layer layer;
  for (const OptionDefinition& definition : option_table()) {
    const auto given = flags.values.find(definition.name);
    if (given == flags.values.end()) continue;
    if (!definition.applies_to(flags.command)) refuse_flag(definition, flags.command);
    layer.add(definition, {value_from_text(definition, only_value(definition, given->second)),
                           definition.flag()});
  }
  return layer;
}

// What tune takes in place of the configuration file's and the usual defaults: many short runs, and
// lists that it fills itself where nobody gives them.
void set_tune_defaults(Options& options) {
  options.strategies = {"ddp"};
  options.until_ci.reset();
  options.save_model.clear();
  options.order = "interleaved";
  options.epochs = 1;
  options.steps = 100;
  options.repetitions = 3;
  options.first_buckets_mb.clear();
  options.bucket_caps_mb.clear();
  options.overlaps.clear();
}

// The configuration file, from the highest layer that names one; an empty layer without.
Layer config_layer(const Layer& flags, const Layer& variables, const ParseContext& context,
                   std::string& path) {
  const Layer::Given* given = flags.find("config");
  if (given == nullptr) given = variables.find("config");
  if (given == nullptr) return {};
  path = find_config(given->value.get<std::string>(), context.config_directories);
  return file_layer(read_config(path), path);
}

}  // namespace

ParsedCommand parse_command(const std::vector<std::string>& arguments,
                            const ParseContext& context) {
  const Flags flags = CommandLine(context.commands).parse(arguments);
  if (flags.has("help")) return {.command = Command::help, .text = help_text(context.commands)};
  if (flags.has("version")) return {.command = Command::version, .text = version_text()};

  ParsedCommand parsed{.command = flags.command, .names = flags.names};
  const Layer given = flag_layer(flags);
  const Layer variables = variable_layer(context.variables, flags.command);
  std::string config_path;
  config_layer(given, variables, context, config_path).apply(parsed.options);
  if (flags.command == Command::tune) set_tune_defaults(parsed.options);
  variables.apply(parsed.options);
  given.apply(parsed.options);
  parsed.options.config_path = config_path;
  if (parsed.options.batch_sizes.empty() && parsed.options.global_batch_sizes.empty())
    parsed.options.batch_sizes = {kDefaultBatchSize};
  check_options(parsed.options);
  return parsed;
}

}  // namespace ddpbench::bench
