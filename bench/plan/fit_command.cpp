// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/plan/fit_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "bench/options/config_file.h"
#include "bench/options/option_source.h"
#include "bench/options/option_table.h"
#include "bench/options/option_value.h"

namespace ddpbench::bench {
namespace {

// A pipe cannot be read again.
bool can_read_again(const std::string& path) {
  std::error_code none;
  return !path.empty() && std::filesystem::is_regular_file(path, none);
}

// What fit has without flags. The file may have changed or be another host's.
Options options_of_file(const std::string& path) {
  Options options;
  try {
    nlohmann::json content = read_config(path);
    take_run_entries(content, path);
    file_source(content, path).apply(options);
  } catch (const ConfigError&) {
    return {};
  }
  return options;
}

std::string flag_text(const nlohmann::json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "on" : "off";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const nlohmann::json& part : value) parts.push_back(flag_text(part));
  return fmt::format("{}", fmt::join(parts, ","));
}

Options options_of(const TrainingJob& job) {
  Options options;
  static_cast<RunOptions&>(options) = job.options;
  for (const SweepAxis& axis : sweep_axes()) axis.give(job.cell, options);
  if (job.cell.servers == 0) options.server_counts = {1};  // not heeded, but an option's value
  return options;
}

}  // namespace

std::string fit_command(const TrainingJob& job, std::optional<std::size_t> memory_per_device) {
  Options run = options_of(job);
  if (memory_per_device) run.memory_per_device = std::to_string(*memory_per_device);
  Options before;
  std::string command = "ddpbench fit";
  const auto add = [&](const OptionDefinition& option, const std::string& text) {
    command += fmt::format(" {}={}", option.flag(), shell_quoted(text));
  };
  const bool has_file = can_read_again(run.config_path);
  if (has_file) before = options_of_file(run.config_path);
  before.strategies.clear();  // fit has all of them
  for (const OptionDefinition& option : option_table()) {
    if (!option.applies_to(Command::fit) || (option.sources & kFlag) == 0) continue;
    const nlohmann::json value = get_value(run, option);
    if (option.name == "config") {
      if (has_file) add(option, run.config_path);
    } else if (!value.is_null() && value != get_value(before, option) && is_heeded(run, option)) {
      add(option, flag_text(value));
    }
  }
  return command;
}

std::string fit_advice(const TrainingJob& job, std::optional<std::size_t> memory_per_device) {
  return fmt::format("`{}` finds the largest batch that fits", fit_command(job, memory_per_device));
}

std::string with_advice(std::string message, const std::string& advice) {
  if (!advice.empty()) message.insert(std::min(message.find('\n'), message.size()), "; " + advice);
  return message;
}

}  // namespace ddpbench::bench
