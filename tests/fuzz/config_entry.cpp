// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "bench/options/option_parser.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"
#include "bench/plan/sweep_plan.h"
#include "tests/fuzz/entries.h"

namespace ddpbench::fuzz {
namespace {

using bench::Options;

std::vector<std::string> lines_of(const std::string& input) {
  std::vector<std::string> lines;
  std::istringstream stream(input);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Options from_file(const std::string& input) {
  nlohmann::json content = bench::parse_config(input, "input.json");
  const auto entries = bench::take_run_entries(content, "input.json");
  Options options;
  bench::file_source(content, "input.json").apply(options);
  std::vector<Options> runs;
  for (const bench::RunEntry& entry : entries) {
    runs.push_back(options);
    entry.source.apply(runs.back());
    bench::check_options(runs.back());
  }
  options.runs = std::move(runs);
  bench::check_options(options);
  bench::check_saving(options);
  return options;
}

// Parses flags like the command line, but without the files of --config.
Options from_flags(const std::string& input) {
  bench::OptionSource source;
  for (const std::string& line : lines_of(input)) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with("--") || equals == line.npos) continue;
    const bench::OptionDefinition* option = bench::find_flag(line.substr(2, equals - 2));
    if (option == nullptr || std::holds_alternative<bench::NoMember>(option->member)) continue;
    source.add(*option, bench::words_of_texts(*option, {line.substr(equals + 1)}, option->flag()),
               option->flag());
  }
  Options options;
  source.apply(options);
  bench::check_options(options);
  bench::check_saving(options);
  return options;
}

Options from_variables(const std::string& input) {
  std::map<std::string, std::string> variables;
  for (const std::string& line : lines_of(input)) {
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    variables[line.substr(0, equals)] = line.substr(equals + 1);
  }
  Options options;
  bench::variable_source(variables, bench::Command::run).apply(options);
  bench::check_options(options);
  bench::check_saving(options);
  return options;
}

Options from(const std::string& input) {
  if (input.starts_with('-')) return from_flags(input);
  if (input.starts_with('D')) return from_variables(input);
  return from_file(input);
}

}  // namespace

bool config_entry(const std::string& input) {
  Options options;
  try {
    options = from(input);
  } catch (const ConfigError&) {
    return false;
  } catch (const UnavailableError&) {
    return false;
  }
  const nlohmann::ordered_json json = bench::to_json(options);
  const Options again = bench::options_from_json(nlohmann::json::parse(json.dump()));
  ensure(again == options, "read again they differ: {}", json.dump());
  return true;
}

}  // namespace ddpbench::fuzz
