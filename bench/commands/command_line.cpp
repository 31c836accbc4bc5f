// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <exception>

#include "base/error.h"
#include "bench/comm/comm_job.h"
#include "bench/commands/subcommand.h"
#include "bench/host/environment_capture.h"
#include "bench/host/terminal.h"
#include "bench/launchers/agent_messages.h"
#include "bench/launchers/make_launcher.h"
#include "bench/options/option_parser.h"
#include "bench/plan/data_places.h"
#include "bench/plan/sweep_plan.h"
#include "bench/plan/training_job.h"
#include "bench/run/session.h"
#include "datasets/catalog.h"
#include "datasets/fetch.h"
#include "kernels/nn/model/model.h"
#include "kernels/nn/model/model_reader.h"
#include "parallel/launch/rank_environment.h"

namespace ddpbench::bench {
namespace {

// What can be trained on, or why nothing can; empty where there is nothing to say. A run reads
// files that are no published ones, such as the user's own in their format, so they are usable,
// too.
std::string usable_words(const data::CatalogEntry& entry, const std::string& directory,
                         bool as_published) {
  if (entry.open == nullptr) return "drawn in the shape and the classes of any network; no files";
  try {
    const auto source = entry.open(entry, directory);
    if (!source) return data::find_nearby(entry, directory);
    const data::DatasetInfo& info = source->info();
    return fmt::format("usable{}: {} training and {} test samples in {}",
                       as_published
                           ? ""
                           : fmt::format(", but not as published (`ddpbench data fetch {}` "
                                         "gets those files)",
                                         entry.name),
                       info.train_samples, info.test_samples, info.directory);
  } catch (const ConfigError& error) {
    return fmt::format("not usable: {}", error.what());
  }
}

int list_data(const Options& options) {
  const std::string directory = data_directory(options.data_dir);
  if (directory.empty()) {
    throw ConfigError(
        "data list: HOME is not set, so that there is no place for data; --data-dir or "
        "DDPBENCH_DATA_DIR name one");
  }
  say("data directory: {}\n", directory);
  for (const data::CatalogEntry& entry : data::catalog()) {
    say("{}\n", entry.name);
    bool as_published = true;
    for (const data::FileState& file : data::inspect_files(entry, directory)) {
      as_published &= !file.present || file.correct;
      say("  {:<32} {}\n", file.name,
          !file.present  ? "not here"
          : file.correct ? fmt::format("{} bytes, checksum right", file.bytes)
                         : fmt::format("{} bytes, checksum WRONG", file.bytes));
    }
    const std::string usable = usable_words(entry, directory, as_published);
    if (!usable.empty()) say("  {}\n", usable);
  }
  return 0;
}

int fetch_data(const ParsedCommand& command) {
  data::FetchOptions options;
  options.directory = data_directory(command.options.data_dir);
  options.force = command.options.force;
  if (!command.options.quiet) {
    options.progress = [](const std::string& line) { say("{}\n", line); };
  }
  for (const auto& name : command.names) data::fetch_files(data::find_in_catalog(name), options);
  return 0;
}

// The place of this process, where a launcher started it beside others.
std::optional<launch::RankEnvironment> place_in_world(const Options& options,
                                                      const Variables& variables) {
  auto environment = launch::read_rank_environment(variables);
  if (!environment && options.local_rank) {
    throw ConfigError(
        fmt::format("--local-rank={}: a launcher gives it to the ranks that it starts, but RANK is "
                    "not set; leave it out, or set RANK to join a world",
                    *options.local_rank));
  }
  if (environment) refuse_launchers(options, kIsRank);
  return environment && environment->world_size > 1 ? environment : std::nullopt;
}

// Makes runs with hosts where the options, or the launcher that started this process, want that.
// All processes of a launcher come here: that of rank 0 supervises the others, which are agents.
int run_on_hosts(const ParsedCommand& command, const std::vector<std::string>& arguments,
                 const Variables& variables) {
  Options options = command.options;
  const auto place = place_in_world(options, variables);
  options.local_rank.reset();                // it is no part of the configuration
  if (place) fit_to_world(options, *place);  // all refuse, so that none waits for rank 0
  if (place && place->rank > 0) {
    return joined_agent_main(*place, options.interface, arguments, wait_limit_s(options.timeout_s));
  }
  for (const std::string& note : command.notes) say("{}\n", note);
  auto hosts = make_hosts(options, most_processes(options), place, arguments);
  return Session(std::move(options), arguments, std::move(hosts)).run();
}

int measure_comm(const Options& options, const std::vector<std::string>& arguments,
                 const Variables& variables) {
  const auto place = place_in_world(options, variables);
  if (!place) {
    if (options.interface.empty()) return run_comm(options, arguments);
    throw ConfigError(fmt::format(
        "--interface={}: it is for ranks that a launcher started; these are all on this host",
        options.interface));
  }
  const double limit_s = wait_limit_s(options.timeout_s);
  if (place->rank > 0) return joined_agent_main(*place, options.interface, arguments, limit_s);
  const auto hosts = make_hosts(options, place->world_size, place, arguments);
  return run_comm(options, arguments, hosts.get());
}

int execute(const ParsedCommand& command, const std::vector<std::string>& arguments,
            const Variables& variables) {
  if (command.options.quiet && !command.options.dry_run) be_quiet();
  switch (command.command) {
    case Command::help:
    case Command::version:
      say("{}", command.text);
      return 0;
    case Command::info:
      return show_info(data_directory(command.options.data_dir));
    case Command::data_list:
      return list_data(command.options);
    case Command::data_fetch:
      return fetch_data(command);
    case Command::tune:
      if (launch::read_rank_environment(variables)) {
        throw ConfigError("tune starts its runs itself; do not start it with a launcher");
      }
      for (const std::string& note : command.notes) say("{}\n", note);
      refuse_launchers(command.options, kRunsHere);  // a configuration may have one
      check_axes(command.options);
      return run_tune(command.options, arguments);
    case Command::fit:
      check_axes(command.options);
      return run_fit(command.options);
    case Command::comm:
      return measure_comm(command.options, arguments, variables);
    case Command::run:
      check_run_list(command.options);
      check_axes(command.options);
      check_saving(command.options);
      return run_on_hosts(command, arguments, variables);
  }
  return 1;
}

// A first answer is to take minutes: 200 steps of 64 samples of resnet18 are hours on few cores.
std::string first_answer_config(const std::string& model) {
  constexpr double kLargeFlops = 1e9;  // of a sample's step; resnet20 has a quarter of it
  if (model.empty()) return "quick";
  const nn::ModelSpec network = nn::load_model_file(find_model(model));
  return nn::cost_of(network).step_flops() < kLargeFlops ? "quick" : "quick-large";
}

int run_command_line(const std::vector<std::string>& arguments) {
  const std::string first = arguments.size() > 1 ? arguments[1] : "";
  if (first == kAgentWord) return host_agent_main();
  if (const SubcommandEntry* subcommand = find_subcommand(first)) {
    return run_subcommand(*subcommand, {arguments.begin() + 2, arguments.end()}, arguments[0]);
  }
  const ParseContext context = {launch::environment_variables(),
                                install_paths().config_directories(), command_summaries(),
                                first_answer_config};
  const ParsedCommand command = parse_command({arguments.begin() + 1, arguments.end()}, context);
  return execute(command, arguments, context.variables);
}

}  // namespace

int command_line_main(const std::vector<std::string>& arguments) {
  try {
    const int code = run_command_line(arguments);
    if (code == 0) finish_output();
    return code;
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    // Errors of the program's own say what they are.
    const bool unexpected = failure.exit_code == 1 && dynamic_cast<const Error*>(&error) == nullptr;
    say_error("ddpbench: {}{}\n", unexpected ? "internal error: " : "", failure.message);
    return failure.exit_code;
  }
}

}  // namespace ddpbench::bench
