// SPDX-FileCopyrightText: The ddpbench authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/options/option_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>
#include <type_traits>

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

std::vector<std::string> OptionDefinition::flags() const {
  std::vector<std::string> all = other_names;
  const auto first_long =
      std::ranges::find_if(all, [](const std::string& other) { return other.starts_with("--"); });
  all.insert(first_long, flag());
  return all;
}

bool OptionDefinition::is_list() const {
  return std::visit(Overloaded{[](NoMember) { return false; }, [](GpuList) { return true; },
                               []<typename T>(T Options::*) {
                                 return kIsList<T> && !std::is_same_v<EntryOf<T>, Injection>;
                               },
                               []<typename T>(T*) { return kIsList<T>; }},
                    member);
}

std::string OptionDefinition::variable() const { return variables().front(); }

std::vector<std::string> OptionDefinition::variables() const {
  std::vector<std::string> all;
  for (const std::string& given : flags()) {
    if (!given.starts_with("--")) continue;
    std::string& variable = all.emplace_back("DDPBENCH_");
    for (const char c : with_underscores(given.substr(2)))
      variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return all;
}

std::string OptionDefinition::canonical_key() const {
  return json_key.empty() ? fmt::format("/{}", with_underscores(name)) : json_key;
}

bool OptionDefinition::applies_to(Command command) const {
  if (std::ranges::count(commands, command) != 0) return true;
  if (command == Command::fit) return (scope & kPlannedByFit) != 0;
  if (command == Command::comm) return (scope & kOfComm) != 0;
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
  static const std::vector<OptionDefinition> table = [] {
    Definitions all = training_definitions();
    std::ranges::move(handling_definitions(), std::back_inserter(all));
    return all;
  }();
  return table;
}

OptionDefinition with_hint(OptionDefinition row) {
  const std::vector<std::string>& choices = row.rule.choices;
  if (!row.hint.empty() || choices.empty()) return row;
  row.hint = fmt::format("{}{}{}", fmt::join(choices, "|"), row.rule.takes_all ? "|all" : "",
                         row.is_list() ? ",..." : "");
  return row;
}

Definitions in_group(const std::string& group, Definitions rows) {
  for (OptionDefinition& row : rows) {
    row.group = group;
    row = with_hint(std::move(row));
  }
  return rows;
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
