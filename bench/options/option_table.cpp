// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ddpbench::bench {

std::string with_underscores(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string OptionDefinition::flag() const { return fmt::format("--{}", name); }

std::string variable_of(const std::string& option) {
  std::string result = "DDPBENCH_";
  for (const char c : with_underscores(option))
    result += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

std::string OptionDefinition::variable() const { return variable_of(name); }

std::string OptionDefinition::canonical_key() const {
  return json_key.empty() ? fmt::format("/{}", with_underscores(name)) : json_key;
}

bool OptionDefinition::applies_to(Command command) const {
  if (std::ranges::count(commands, command) != 0) return true;
  if (command == Command::fit) return (scope & kPlannedByFit) != 0;
  return command == Command::tune && std::ranges::count(commands, Command::run) != 0 &&
         (scope & kNotOfTune) == 0;
}

std::vector<std::string> OptionDefinition::file_keys() const {
  if ((sources & kFile) == 0) return {};
  std::vector<std::string> keys;
  // "/optimizer" is no key where "/optimizer/name" is one.
  const std::string short_key = fmt::format("/{}", with_underscores(name));
  if ((sources & kFlag) != 0 && !json_key.empty() && !json_key.starts_with(short_key + "/"))
    keys.push_back(short_key);
  keys.push_back(canonical_key());
  return keys;
}

const std::vector<OptionDefinition>& option_table() {
  static const std::vector<OptionDefinition> table = option_definitions();
  return table;
}

const OptionDefinition* find_flag(const std::string& name) {
  const std::string wanted = with_dashes(name);
  for (const OptionDefinition& definition : option_table())
    if ((definition.sources & kFlag) != 0 && definition.name == wanted) return &definition;
  return nullptr;
}

std::vector<std::string> option_variables() {
  std::vector<std::string> names;
  for (const OptionDefinition& definition : option_table())
    if ((definition.sources & kVariable) != 0) names.push_back(definition.variable());
  return names;
}

const std::vector<std::string>& reserved_variables() {
  static const std::vector<std::string> names = {"DDPBENCH_JOB_SECRET",   "DDPBENCH_LAUNCHER",
                                                 "DDPBENCH_LAUNCHED_RUN", "DDPBENCH_RUN_FD",
                                                 "DDPBENCH_CHANNEL_FD",   "DDPBENCH_DATASET_FD",
                                                 "DDPBENCH_PRESET",       "DDPBENCH_REPORT_INBOX"};
  return names;
}

}  // namespace ddpbench::bench
